"""Experiments all of whose processes are killed at a moment, as by kill -9 or a power cut."""

import fcntl
import json
import shutil
import subprocess
import time
from pathlib import Path

from tests.support.commands import kill_forks, server

# fairseq-train that writes the file "stopped" and waits, at a moment in the file "stop_at": before
# or after checkpoint_last.pt has got its name for the Nth time; or that gets Ctrl-C at the moment.
TRAIN = """
import os, pathlib, signal, sys
count = 0
replace = os.replace
def stop(moment):
    wanted = pathlib.Path("stop_at")
    if wanted.exists() and wanted.read_text() == f"Ctrl-C {moment} {count}":
        wanted.unlink()
        os.kill(os.getpid(), signal.SIGINT)
    elif wanted.exists() and wanted.read_text() == f"{moment} {count}":
        wanted.unlink()
        pathlib.Path("stopped").touch()
        signal.pause()
def stopping(source, target):
    global count
    is_last = str(target).endswith("checkpoint_last.pt")
    count += is_last
    if is_last: stop("before")
    replace(source, target)
    if is_last: stop("after")
os.replace = stopping
from fairseq_cli.train import cli_main
cli_main()
"""
# Numbers of a result that depend on the time and on the machine.
TIMES = {"train_minutes", "cpu_minutes", "energy_wh", "tokens_per_second", "sentences_per_second"}


class KilledExperiment:
    """An experiment in a folder, which is started again after it was killed.

    Args:
        folder: the folder of the text; a new one, which gets the experiment and the programs.
        text: the content of the experiment's file.
    """

    def __init__(self, folder: Path, text: str):
        self.folder = folder
        (folder / "e.yaml").write_text(text, encoding="utf-8")
        programs = folder / "programs"
        shutil.copytree(server().programs, programs)
        (folder / "train.py").write_text(TRAIN, encoding="utf-8")
        train = f'#!/bin/sh\nexec "{programs}/python" "{folder}/train.py" "$@"\n'
        (programs / "fairseq-train").write_text(train, encoding="utf-8")

    def start(self) -> subprocess.Popen:
        """Start the experiment."""
        with open(self.folder / "printed", "ab") as printed:
            return subprocess.Popen(
                [self.folder / "programs" / "convs2s", "experiment", "e.yaml"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> dict:
        """Carry out what is missing, and return the results."""
        assert self.start().wait() == 0, self.printed
        return self.results()

    def kill_while_saving(self, moment: str) -> None:
        """Start it, and kill it at a moment of TRAIN."""
        (self.folder / "stop_at").write_text(moment, encoding="utf-8")
        self.kill_when("stopped")
        (self.folder / "stopped").unlink()

    def interrupt_training(self, moment: str) -> None:
        """Start it; its fairseq-train, and nothing else, gets Ctrl-C at a moment of TRAIN."""
        (self.folder / "stop_at").write_text(f"Ctrl-C {moment}", encoding="utf-8")
        assert self.start().wait() == 1, self.printed

    def kill_when(self, name: str) -> None:
        """Start it, and kill it when there is a file in its folder."""
        process = self.start()
        while not (self.folder / name).exists():
            assert process.poll() is None, self.printed
            time.sleep(0.002)
        self.kill(process)

    def kill_after(self, seconds: float) -> bool:
        """Start it, and kill it after some seconds; whether it still ran."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill(process)
            return True
        assert process.returncode == 0, self.printed
        return False

    def kill(self, process: subprocess.Popen) -> None:
        """Kill all processes of the experiment and its programs, which are forks of the server."""
        kill_forks()
        process.wait()
        # The programs that asked for the forks end, too.
        for path in (self.folder / "e_out/locks/runs").glob("*"):
            with open(path, encoding="utf-8") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)

    @property
    def printed(self) -> str:
        """What it has printed so far."""
        return (self.folder / "printed").read_text(encoding="utf-8", errors="replace")

    def results(self) -> dict:
        """The results and translations of all runs, without times."""
        found: dict = {}
        for path in sorted((self.folder / "e_out/runs").glob("*/result.json")):
            result = json.loads(path.read_text(encoding="utf-8"))
            run = path.parent.name
            found[run] = {name: result[name] for name in result if name not in TIMES}
            found[run]["left"] = sorted(each.name for each in path.parent.glob("checkpoints/*"))
            for text in path.parent.glob("*.hyp"):
                found[run, text.name] = text.read_text(encoding="utf-8")
        return found
