"""Trainings that something happens to: a full disk, a kill, a folder that cannot be written."""

import re
import signal
import subprocess

from tests.commands import TINY, server, train_arguments, weights

EXACT = (*TINY, "--no-epoch-checkpoints", "--max-epoch", "6")
# The disk has no room for copies of checkpoints, or for anything in a file.
NO_ROOM_FOR_COPIES = """
import errno, os, shutil
def copyfile(source, target, **options):
    open(target, "wb").write(b"PK")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
shutil.copyfile = copyfile
"""
SMALL_FILES = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
# As for a user: root writes everywhere.
ORDINARY_USER = """
import ctypes, os
if os.geteuid() == 0:
    DAC_OVERRIDE = 1
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capget(header, data) == 0
    data[0] &= ~(1 << DAC_OVERRIDE)
    assert libc.capset(header, data) == 0
"""


def program(name, *arguments, setup=""):
    """The command line that runs ``fairseq-NAME`` after some code, in a fork of the server."""
    code = f"{setup}\nfrom fairseq_cli.{name} import cli_main; cli_main()"
    return [server().programs / "python", "-c", code, *map(str, arguments)]


def run(name, *arguments, setup=""):
    """Run such a command to its end."""
    return subprocess.run(
        program(name, *arguments, setup=setup), capture_output=True, text=True, input=""
    )


def train(corpus, folder, *arguments, options=TINY, setup=""):
    """fairseq-train into a folder, successful or not."""
    return run("train", *train_arguments(corpus, folder, *arguments, options=options), setup=setup)


def killed_while_saving(number):
    """Code that ends the process, as kill -9 does, at the given write or copy of a checkpoint.

    Args:
        number: of the call, counted from 1, of one that writes, opens or renames a file.
    """
    return f"""
import builtins, os, signal
left = [{number}]
def counted(call):
    def count(*arguments, **options):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.{signal.SIGKILL.name})
        return call(*arguments, **options)
    return count
import shutil, torch
save = torch.save
def save_in_parts(obj, file, **options):
    if not hasattr(file, "write"):
        return save(obj, file, **options)
    write = file.write
    class File:
        def __getattr__(self, name):
            return getattr(file, name)
        write = staticmethod(counted(lambda data: write(bytes(data)) and (file.flush() or len(data))))
    return save(obj, File(), **options)
torch.save = save_in_parts
shutil.copyfile = counted(shutil.copyfile)
os.replace = counted(os.replace)
os.rename = counted(os.rename)
"""


def sentence(done):
    """The error of a command that failed without a traceback."""
    assert done.returncode != 0, done.stdout[-2000:]
    assert "Traceback" not in done.stdout + done.stderr, done.stderr[-3000:]
    (found,) = re.findall(r"^error: (.*)", done.stderr, flags=re.MULTILINE)
    return found


def whole(folder):
    """The checkpoints of a folder, all of which can be read, and nothing else is there."""
    names = sorted(path.name for path in folder.iterdir())
    assert all(re.fullmatch(r"checkpoint\w*\.pt", name) for name in names), names
    for name in names:
        weights(folder / name)
    return names
