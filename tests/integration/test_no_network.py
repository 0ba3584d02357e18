"""Nothing is fetched: importing, training and translating open no connection."""

import subprocess
import sys

from tests import ROOT
from tests.support.faults import train
from tests.support.translation import DATA, FIXTURES

# Ends the process at the first use of the network, by any module.
CLOSED = """
import os, sys
def closed(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request"):
        print("network:", event, arguments, file=sys.stderr, flush=True)
        os._exit(99)
sys.addaudithook(closed)
"""


def new_interpreter(code, text=""):
    return subprocess.run(
        [sys.executable, "-c", CLOSED + code],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
    )


def test_the_network_is_closed():
    done = new_interpreter("import socket; socket.create_connection(('127.0.0.1', 9))")
    assert done.returncode == 99 and "network: socket.getaddrinfo" in done.stderr


def test_import_and_translation():
    arguments = ["translate", "--path", str(FIXTURES / "convs2s.pt"), "--data", str(DATA), "--raw"]
    done = new_interpreter(
        f"from convs2s.cli import main; sys.exit(main({arguments!r}))", "eins zwei\n"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("\n") == 1


def test_training(corpus, tmp_path):
    done = train(corpus, tmp_path, "--max-epoch", "1", setup=CLOSED)
    assert done.returncode == 0, done.stderr[-2000:]
