"""Start programs, log their output and their commands, and end them all if asked."""

import contextlib
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from .errors import UserError
from .installation import available_cores
from .locks import release
from .output_files import create_temporary
from .quiet import hiding_variable
from .signals import ANNOUNCING

# Console script -> its module, used if the script is not installed next to the interpreter.
MODULES = {
    "convs2s": "convs2s",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-interactive": "fairseq_cli.interactive",
    "fairseq-preprocess": "fairseq_cli.preprocess",
    "fairseq-train": "fairseq_cli.train",
    "subword-nmt": "subword_nmt.subword_nmt",
    "torchrun": "torch.distributed.run",
}
WARNINGS = "PYTHONWARNINGS"
# Lines at the end of a failed program's log that are shown.
TAIL = 15
# Seconds that a program has to end after SIGTERM.
GRACE = 10.0
# Seconds between two checks of a log, and of whether its program has ended.
POLL_INTERVAL = 0.02
# Seconds between two reports of the time that a program has taken.
REPORT_INTERVAL = 10.0


class ProgramFailed(Exception):
    """A program ended with an error.

    Args:
        program: its name.
        code: its exit code, or minus the number of the signal that ended it.
        log: its log.
        start: the size of the log before, in bytes.
    """

    def __init__(self, program: str, code: int, log: Path, start: int):
        self.code, self.log, self.start = code, log, start
        ended = f"failed with exit code {code}" if code >= 0 else f"was ended by signal {-code}"
        reason = self.reason.removesuffix(".")
        super().__init__(f"{reason} ({program} {ended}; its log is {log})")

    @property
    def output(self) -> str:
        """What the program wrote to the log."""
        return self.log.read_bytes()[self.start :].decode("utf-8", "replace")

    @property
    def reason(self) -> str:
        """The last error in its output, or otherwise the last line."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        errors = [line for line in lines if re.match(r"([\w -]+: )?error: ", line)]
        if errors:
            return errors[-1].partition("error: ")[2]
        return lines[-1] if lines and self.code > 0 else "it ended without an error message"

    def log_end(self) -> list[str]:
        """The last lines of its output, which may tell the reason."""
        return self.output.splitlines()[-TAIL:]


class Stopped(Exception):
    """``Programs.stop`` was called while a program ran."""


class TimeReports:
    """Reports the time that a program has taken, in parts, so that a power cut loses little.

    Args:
        add_time: as in ``Programs.run``; None to report nothing.
    """

    def __init__(self, add_time: Callable[[float, float], None] | None):
        self.add_time = add_time
        self.start = time.monotonic()
        self.wall = self.cpu = 0.0

    def add(self, cpu: float) -> None:
        """Report what was not reported yet.

        Args:
            cpu: the CPU time since the start in seconds.
        """
        if self.add_time is None:
            return
        wall, cpu = time.monotonic() - self.start, max(cpu, self.cpu)
        self.add_time(wall - self.wall, cpu - self.cpu)
        self.wall, self.cpu = wall, cpu

    def add_running(self, pid: int) -> None:
        """Report the time of a running program, unless the last report is recent."""
        if time.monotonic() - self.start - self.wall >= REPORT_INTERVAL:
            self.add(cpu_time(pid))


class Lines:
    """The lines of a log that a program is writing.

    Args:
        file: the log.
    Attributes:
        last: its last byte; b"" if it is empty.
    """

    def __init__(self, file: BinaryIO):
        self._file, self._begun = file, b""
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        self.last = file.read(1)

    def skip(self) -> int:
        """Skip what is in the log, and return its size."""
        return self._file.seek(0, os.SEEK_END)

    def new(self, everything: bool) -> Iterator[str]:
        """The lines that were written since the last call.

        Args:
            everything: whether to return an incomplete last line, too, since nothing will follow.
        """
        while part := self._file.readline():
            self._begun += part
            if self._begun.endswith(b"\n"):
                line, self._begun = self._begun, b""
                yield line.decode("utf-8", errors="replace")
        if everything and self._begun:
            yield self._begun.decode("utf-8", errors="replace")


class Programs:
    """Starts programs, each in a process group of its own.

    Args:
        commands: file to append each command to; None to start nothing and print the commands.
    """

    def __init__(self, commands: Path | None):
        self.commands = commands
        # Each running program, and its log with the size that this had before.
        self.running: dict[subprocess.Popen[bytes], tuple[Path, int]] = {}
        self.stopped = self.interrupted = False
        self.lock = Lock()

    @property
    def dry(self) -> bool:
        """Commands are printed, and nothing is started."""
        return self.commands is None

    def run(
        self,
        command: Sequence[object],
        log: Path,
        stdout: Path | None = None,
        environment: Mapping[str, str] | None = None,
        keep_open: Sequence[int] = (),
        watch: Callable[[str], None] | None = None,
        add_time: Callable[[float, float], None] | None = None,
    ) -> None:
        """Run a program to its end and append its output to a log.

        The program writes the log itself, so that nothing of it is lost if this process is killed.

        Args:
            command: the program and its arguments, see ``find_program``.
            log: file for stderr, and for stdout unless that is redirected.
            stdout: file to redirect stdout to, which gets its name only if the program succeeds.
            environment: variables to add.
            keep_open: file descriptors that the program inherits.
            watch: called with each line of the log.
            add_time: called with the seconds that passed since the last call, and the CPU time of
                all processes of the program in them, user and system. It is called every few
                seconds while the program writes, and at the end, successful or not.
        Raises:
            ProgramFailed: if the exit code is not 0.
            Stopped: if ``stop`` was called, or ``interrupt`` before the program ran.
        """
        program, *arguments = map(str, command)
        line = command_line(command, stdout, environment)
        if self.commands is None:
            print(line)
            return
        with self.lock, open(self.commands, "a", encoding="utf-8") as file:
            file.write(f"# {datetime.now():%Y-%m-%d %H:%M:%S}\n{line}\n")
        log.parent.mkdir(parents=True, exist_ok=True)
        warnings = hiding_variable(os.environ.get(WARNINGS))
        times = TimeReports(add_time)
        with contextlib.ExitStack() as files:
            partial = Path(f"{stdout}.partial")
            if stdout:
                files.callback(release, create_temporary(str(partial), str(stdout)))
            written = files.enter_context(open(log, "ab"))
            sink = files.enter_context(open(partial, "wb")) if stdout else written
            lines = Lines(files.enter_context(open(log, "rb")))
            if lines.last not in (b"", b"\n"):
                # The end of a line is missing, because its program was killed.
                written.write(b"\n")
                written.flush()
            log_size = lines.skip()
            with self.lock:
                if self.stopped or self.interrupted:
                    raise Stopped
                # The program inherits what this thread blocks.
                before = signal.pthread_sigmask(signal.SIG_BLOCK, ANNOUNCING)
                try:
                    process = subprocess.Popen(
                        [*find_program(program), *arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=sink,
                        stderr=written,
                        env={**os.environ, WARNINGS: warnings, **(environment or {})},
                        start_new_session=True,
                        pass_fds=keep_open,
                    )
                finally:
                    signal.pthread_sigmask(signal.SIG_SETMASK, before)
                self.running[process] = log, log_size
                if self.interrupted:
                    # The signal came while the program was being started.
                    self.interrupt()
            try:
                usage = None
                while usage is None:
                    # What it wrote before it ended is read after that.
                    usage = self.ended(process)
                    for text in lines.new(everything=usage is not None):
                        if watch:
                            watch(text)
                        if usage is None:
                            times.add_running(process.pid)
                    if usage is None:
                        time.sleep(POLL_INTERVAL)
            except BaseException:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                while self.ended(process) is None:
                    time.sleep(POLL_INTERVAL)
                raise
        times.add(usage.ru_utime + usage.ru_stime)
        if self.stopped:
            raise Stopped
        if process.returncode != 0:
            raise ProgramFailed(program, process.returncode, log, log_size)
        if stdout:
            os.replace(partial, stdout)

    def ended(self, process: subprocess.Popen[bytes]) -> resource.struct_rusage | None:
        """The resources that a process used until it ended; None if it is running."""
        if process.returncode is not None:
            return resource.struct_rusage([0.0] * 16)
        usage = usage_at_end(process)
        if usage is not None:
            with self.lock:
                self.running.pop(process, None)
        return usage

    def interrupt(self) -> None:
        """Send Ctrl-C to all running programs, and start no more; for signal handlers.

        While a program imports its modules, Python may lose the exception that Ctrl-C raises.
        Programs that have written nothing to their logs yet are ended with SIGTERM, which it
        leaves alone.
        """
        self.interrupted = True
        for process, (log, size) in list(self.running.items()):
            number = signal.SIGINT if log.stat().st_size > size else signal.SIGTERM
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def stop(self) -> None:
        """End all running programs, and start no more."""
        with self.lock:
            self.stopped = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            with self.lock:
                for process in self.running:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
            end = time.monotonic() + GRACE
            while self.running and time.monotonic() < end:
                time.sleep(0.05)


def command_line(
    command: Sequence[object],
    stdout: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """A command as one could type it; see ``Programs.run``."""
    words = [f"{name}={shlex.quote(value)}" for name, value in (environment or {}).items()]
    words.append(shlex.join(map(relative_path, command)))
    if stdout:
        words += [">", shlex.quote(relative_path(stdout))]
    return " ".join(words)


def usage_at_end(process: subprocess.Popen[bytes]) -> resource.struct_rusage | None:
    """The resources that a process, and those it waited for, used until it ended.

    Args:
        process: a process that nothing else waits for; if it has ended, its exit code is set.
    Returns:
        The resources; None if it is running.
    """
    pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    if pid == 0:
        return None
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def cpu_time(pid: int) -> float:
    """CPU time of a process and of its children that ended, in seconds; 0 if it has ended itself.

    Args:
        pid: number of the process.
    """
    import psutil

    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system + times.children_user + times.children_system)


def find_program(name: str) -> list[str]:
    """The command that starts a program.

    It is the script next to this interpreter, otherwise its module, otherwise a program on PATH.

    Raises:
        UserError: if there is none.
    """
    script = shutil.which(name, path=str(Path(sys.executable).parent))
    module = MODULES.get(name)
    if script is None and module and find_spec(module.partition(".")[0]):
        return [sys.executable, "-m", module]
    found = script or shutil.which(name)
    if found is None:
        package = '"convs2s-plugin[fairseq]"' if name.startswith("fairseq") else name
        raise UserError(f"There is no program {name}: run `pip install {package}`.")
    return [found]


def relative_path(path: object) -> str:
    """A path relative to the current folder if it is below it; any other text as it is."""
    text = str(path)
    if "/" not in text:
        return text
    folder = os.getcwd()
    return "." if text == folder else text.removeprefix(os.path.join(folder, ""))


def available_threads() -> int:
    """The number of threads of this process: OMP_NUM_THREADS, or the CPUs that it may use."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    if given.isdigit() and int(given):
        return int(given)
    return available_cores()
