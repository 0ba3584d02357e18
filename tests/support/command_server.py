"""Start fairseq's commands, and shell code that uses them, quickly.

Importing torch and fairseq takes seconds, and the tests run many commands. A server imports them
and the library once and forks a process for each command. ``fairseq-train``, ``convs2s``,
``python`` and others are small programs in a folder; they hand their arguments, folder, environment
and standard streams to the server. The plugin itself is imported by the commands, as it is by a
user's.
"""

import atexit
import gc
import json
import logging
import os
import runpy
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path

from convs2s.common.installation import missing_fairseq

ROOT = Path(__file__).resolve().parents[2]

# name -> module and function of the console script.
PROGRAMS = {
    "convs2s": ("convs2s.cli", "main"),
    "fairseq-generate": ("fairseq_cli.generate", "cli_main"),
    "fairseq-hydra-train": ("fairseq_cli.hydra_train", "cli_main"),
    "fairseq-interactive": ("fairseq_cli.interactive", "cli_main"),
    "fairseq-preprocess": ("fairseq_cli.preprocess", "cli_main"),
    "fairseq-train": ("fairseq_cli.train", "cli_main"),
    "fairseq-validate": ("fairseq_cli.validate", "cli_main"),
    "sacrebleu": ("sacrebleu.sacrebleu", "main"),
    "subword-nmt": ("subword_nmt.subword_nmt", "main"),
    "python": (None, None),
}
PRELOADED = [
    "convs2s.cli.experiment",
    "convs2s.models.adl.network",
    "convs2s.models.convs2s.network",
    "convs2s.models.pervasive.network",
    "convs2s.translation.translator",
    "fairseq.binarizer",
    "fairseq.dataclass.initialize",
    "fairseq.model_parallel.megatron_trainer",
    "fairseq.options",
    "fairseq.sequence_generator",
    "fairseq.tasks",
    "hydra.core.hydra_config",
    "sacrebleu.sacrebleu",
    # The first step of an optimizer imports it.
    "torch._dynamo",
]

CLIENT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    folder, name = os.path.split(os.path.abspath(sys.argv[0]))
    asked = json.dumps([folder, name, sys.argv[1:], os.getcwd(), dict(os.environ)])
    socket.send_fds(server, [b"%010d" % len(asked.encode())], [0, 1, 2])
    server.sendall(asked.encode())
    answer = server.recv(1)
sys.exit(answer[0] if answer else 70)
"""


class CommandServer:
    """A server and a folder of programs that use it.

    The server must be kept alive: the folders are deleted with their last references, even in a
    fork of this process, which from Python 3.13 on drops what atexit refers to.
    """

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory()
        self.programs = Path(self._folder.name) / "bin"
        self.programs.mkdir()
        # The path of a socket is limited to about 100 characters.
        self._socket_folder = tempfile.TemporaryDirectory(prefix="docs")
        address = f"{self._socket_folder.name}/socket"
        for name in PROGRAMS:
            program = self.programs / name
            program.write_text(CLIENT.format(python=sys.executable, address=address))
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.command_server", address],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        assert self.process.stdout.readline() == b"ready\n"

    def bash(self, code: str, folder: Path) -> subprocess.CompletedProcess:
        """Run shell code in a folder; it ends at the first command that fails."""
        path = os.pathsep.join([str(self.programs), "/usr/bin", "/bin"])
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=folder,
            env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )

    def close(self) -> None:
        """End the server."""
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self._socket_folder.cleanup()
        self._folder.cleanup()


def serve(address: str) -> None:
    """Answer programs until the process is ended, or the one that started it."""
    for name in PRELOADED:
        if not name.startswith(("fairseq", "hydra")) or missing_fairseq() is None:
            import_module(name)
    # Nobody waits for the processes of the commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        server.settimeout(10)
        parent = os.getppid()
        # Otherwise every command collects among the objects of all modules, and copies their pages.
        gc.freeze()
        print("ready", flush=True)
        while os.getppid() == parent:
            try:
                client, _ = server.accept()
            except TimeoutError:
                continue
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(client)
            client.close()


def answer(client: socket.socket) -> None:
    """Run the command that a program asks for, tell it the exit status, and end this process."""
    size, descriptors, _, _ = socket.recv_fds(client, 10, 3)
    asked = b""
    while len(asked) < int(size):
        asked += client.recv(int(size) - len(asked))
    programs, name, arguments, folder, environment = json.loads(asked)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    # Commands that start the scripts next to the interpreter start these programs.
    sys.executable = os.path.join(programs, "python")
    threading.Thread(target=end_with, args=(client,), daemon=True).start()
    status = 1
    try:
        status = run(name, arguments)
    except SystemExit as end:
        status = end.code
        if isinstance(status, str):
            print(status, file=sys.stderr)
            status = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(bytes([status or 0]))
    os._exit(0)


def end_with(client: socket.socket) -> None:
    """End this process if the program that asked for it is ended."""
    if client.recv(1) == b"":
        os.kill(os.getpid(), signal.SIGTERM)


def run(name: str, arguments: list[str]) -> int:
    """What the console script does."""
    sys.argv = [name, *arguments]
    if name != "python":
        module, function = PROGRAMS[name]
        if name == "fairseq-train":
            # It sets up logging before it imports fairseq, which would set it up differently.
            logging.root.handlers.clear()
        return getattr(import_module(module), function)()
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = arguments
        sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    serve(sys.argv[1])
