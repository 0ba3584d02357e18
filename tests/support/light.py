"""Run a command in a new interpreter: what it imports, and its processor time and memory."""

import json
import os
import subprocess
import sys
from functools import cache

from tests import ROOT

MAX_MEGABYTES = 80
HEAVY = {"torch", "fairseq", "omegaconf", "convs2s_plugin", "matplotlib"}

# Runs the command line in a new interpreter; then prints its exit code, what is imported, and its
# processor time and largest memory.
REPORT = r"""
import json, re, sys, time
from convs2s.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as stop:
    code = stop.code
# The resident memory that getrusage knows is at least that of the process that started this one.
memory = re.search(r"VmHWM:\s*(\d+) kB", open("/proc/self/status").read())
print(json.dumps([code, list(sys.modules), time.process_time(), int(memory[1]) / 1024]))
"""
YARDSTICK = """
import time, yaml
from pydantic import BaseModel
print(time.process_time())
"""


@cache
def max_seconds():
    """The limit of processor time: 0.4 s, or on a slow computer three times that of YARDSTICK."""
    least = min(float(_python(YARDSTICK).stdout) for _ in range(5))
    return max(0.4, 3 * least)


def run(*arguments, folder=ROOT, limit=None):
    """Exit code, standard output, standard error, modules, seconds and megabytes of a command.

    If it takes longer than the limit (default: that of ``max_seconds``), it runs again, and the
    least time counts: the first run of a module compiles it, and other programs may be in the
    caches.
    """
    limit = max_seconds() if limit is None else limit
    found = _run(arguments, folder)
    for _ in range(9):
        if found[4] <= limit:
            break
        *_, seconds, megabytes = _run(arguments, folder)
        found = (*found[:4], min(found[4], seconds), megabytes)
    return found


def _run(arguments, folder):
    done = _python(REPORT, *arguments, folder=folder)
    *printed, report = done.stdout.splitlines()
    code, modules, seconds, megabytes = json.loads(report)
    return code, "\n".join(printed), done.stderr, set(modules), seconds, megabytes


def _python(code, *arguments, folder=ROOT):
    # Where Python may not keep what it compiled, it would compile all modules in every run.
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=folder, env=environment
    )


def assert_light(*arguments, folder=ROOT):
    """Run a command, which must succeed, within the limits and without what is HEAVY."""
    code, output, errors, modules, seconds, megabytes = run(*arguments, folder=folder)
    assert code == 0, errors
    assert not modules & HEAVY
    assert seconds <= max_seconds() and megabytes <= MAX_MEGABYTES, (seconds, megabytes)
    return output
