"""Trainings that something happens to: a full disk, a kill, a folder that cannot be written."""

import re
import subprocess

from tests.support.commands import TINY, server, train_arguments, weights

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
# The options of a small model of each family.
FAMILIES = {
    "convs2s": TINY[:12],
    "adl": ("--arch", "adl_transformer", "--model-dim", "16", "--attention-heads", "2"),
    "pervasive": (
        "--arch",
        "pervasive_iwslt_de_en",
        "--encoder-embed-dim",
        "8",
        "--decoder-embed-dim",
        "8",
        "--num-layers",
        "2",
        "--growth-rate",
        "4",
        "--kernel-size",
        "3",
    ),
}


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


def killed_while_saving(number=0):
    """Code that ends the process, as kill -9 does, at a moment of saving checkpoints.

    Args:
        number: of the moment, counted from 1: before a write to a file of a checkpoint, before it
            is copied, or before it gets its name; 0 for none. At its end, the process prints how
            many there were.
    """
    return f"""
import atexit, os, shutil, signal, torch
count = 0
def moment():
    global count
    count += 1
    if count == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
def after_moment(call):
    def wrapper(*arguments, **options):
        moment()
        return call(*arguments, **options)
    return wrapper
class File:
    def __init__(self, file):
        self.file = file
    def write(self, data):
        moment()
        written = self.file.write(data)
        self.file.flush()
        return written
    def flush(self):
        self.file.flush()
save = torch.save
torch.save = lambda obj, file: save(obj, File(file))
shutil.copyfile = after_moment(shutil.copyfile)
os.replace = after_moment(os.replace)
atexit.register(lambda: print("moments:", count))
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
