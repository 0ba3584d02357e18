"""Run commands of fairseq and of the package, each in a separate process.

Most are forks of a process that has imported fairseq (see command_server.py): importing it takes
seconds. ``start=command`` starts a new interpreter, as a user does.
"""

import atexit
import functools
import io
import json
import re
import subprocess
import sys
from contextlib import redirect_stdout, suppress

import psutil
import pytest
import torch

from convs2s.common.installation import missing_fairseq
from convs2s.evaluation.nbest import marked
from tests import ROOT
from tests.support.command_server import CommandServer

PLUGIN = ROOT / "convs2s_plugin"

TASK = ("--task", "convs2s_translation")
CRITERION = ("--criterion", "convs2s_cross_entropy")

TINY = (
    *("--arch", "convs2s_iwslt_de_en", "--dropout", "0.1"),
    *("--encoder-embed-dim", "32", "--decoder-embed-dim", "32", "--decoder-out-embed-dim", "32"),
    *("--encoder-layers", "[(32, 3)] * 2", "--decoder-layers", "[(32, 3)] * 2"),
    *("--optimizer", "adam", "--lr", "0.01", "--clip-norm", "1.0", "--max-tokens", "400"),
)


# For tests whose own commands start programs of fairseq.
NEEDS_FAIRSEQ = pytest.mark.skipif(missing_fairseq() is not None, reason=str(missing_fairseq()))


def skip_without_fairseq():
    """Skip the test that asks for fairseq where it is not installed, such as on Python 3.13."""
    if why := missing_fairseq():
        pytest.skip(why)


@functools.cache
def server() -> CommandServer:
    """The server of this test process."""
    started = CommandServer()
    atexit.register(started.close)
    return started


def kill_forks():
    """Kill all commands that the server has started, and all that these have started."""
    while alive := psutil.Process(server().process.pid).children(recursive=True):
        for each in alive:
            # One that has just been ended by the end of another is gone.
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(alive, timeout=5)


def command(name, *arguments):
    """The command line of ``fairseq-NAME`` in a new interpreter."""
    skip_without_fairseq()
    code = f"import sys; from fairseq_cli.{name} import cli_main; sys.exit(cli_main())"
    return [sys.executable, "-c", code, *map(str, arguments)]


def quick_command(name, *arguments):
    """The command line of ``fairseq-NAME`` in a fork of the server."""
    skip_without_fairseq()
    program = server().programs / f"fairseq-{name.replace('_', '-')}"
    return [program, *map(str, arguments)]


def run(name, *arguments, text=None, start=quick_command, **options):
    """Run ``fairseq-NAME`` to its end, successful or not.

    Args:
        text: standard input, str or bytes.
        start: ``quick_command`` or ``command``.
    """
    if isinstance(text, str):
        text = text.encode()
    done = subprocess.run(
        start(name, *arguments), input=text or b"", capture_output=True, **options
    )
    done.stdout, done.stderr = (
        out.decode("utf-8", "replace") for out in (done.stdout, done.stderr)
    )
    return done


# Calls a function of a module of the tests.
_CALL = """
import json, sys
from importlib import import_module
module, name, arguments = json.loads(sys.argv[1])
getattr(import_module(module), name)(*arguments)
"""


def call_at_once(function, calls):
    """Call a function of a module several times at once, each in a fork of the server.

    Args:
        calls: the arguments of each call, as JSON has them.
    Returns:
        The exit status of each process.
    """
    of_all = [json.dumps([function.__module__, function.__name__, each]) for each in calls]
    program = [server().programs / "python", "-c", _CALL]
    processes = [subprocess.Popen([*program, each], cwd=ROOT) for each in of_all]
    return [process.wait() for process in processes]


def fairseq(name, *arguments, text=None, **options):
    """Run ``fairseq-NAME``, which must succeed, and return all that it printed."""
    done = run(name, *arguments, text=text, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


def train(corpus, folder, *arguments, options=TINY):
    """fairseq-train on the tiny corpus, into ``folder``; returns the log."""
    return fairseq("train", *train_arguments(corpus, folder, *arguments, options=options))


def train_arguments(corpus, folder, *arguments, options=TINY):
    """The arguments of such a training."""
    return (
        corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--save-dir",
        folder,
        "--cpu",
        "--no-progress-bar",
        "--log-format",
        "simple",
        "--num-workers",
        "0",
        *options,
        *arguments,
    )


def refused(done):
    """The error message of a command that failed without a traceback."""
    everything = done.stdout + done.stderr
    assert done.returncode != 0, everything[-2000:]
    assert "Traceback" not in everything, everything[-3000:]
    (sentence,) = re.findall(r"^error: (.*)", done.stderr, flags=re.MULTILINE | re.DOTALL)
    return sentence.strip()


def hypotheses(text, mark="H"):
    """The lines ``H-number<tab>score<tab>words``: number -> list of (score, words)."""
    found = {}
    for number, lines in marked(text, mark).items():
        parts = (line.partition("\t") for line in lines)
        found[number] = [(float(score), words) for score, _, words in parts]
    return found


def generate(corpus, path, *arguments, subset="test", data="bin"):
    """The output of fairseq-generate, run in this process.

    Args:
        data: the folder of the data in that of the corpus.
    """
    skip_without_fairseq()
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from fairseq_cli import generate as generate_command

    parser = options.get_generation_parser()
    args = options.parse_args_and_arch(
        parser,
        input_args=[
            str(corpus / data),
            "--user-dir",
            str(PLUGIN),
            "--path",
            str(path),
            "--cpu",
            "--gen-subset",
            subset,
            "--max-tokens",
            "200",
            "--num-workers",
            "0",
            *map(str, arguments),
        ],
    )
    printed = io.StringIO()
    with redirect_stdout(printed):
        generate_command._main(convert_namespace_to_omegaconf(args), printed)
    return printed.getvalue()


def alignments(printed):
    """The lines ``A-number<tab>pairs``: number -> text."""
    return {
        int(line.split("\t")[0][2:]): line.split("\t")[1]
        for line in printed.splitlines()
        if line.startswith("A-")
    }


def validation_losses(log):
    """The loss of each validation in a log of fairseq-train."""
    return [float(loss) for loss in re.findall(r"valid on .*? \| loss ([\d.]+)", log)]


def weights(path):
    """The parameters and buffers of a checkpoint."""
    return torch.load(path, weights_only=True)["model"]


def assert_same_weights(first, second, **tolerance):
    """Two checkpoints have the same keys and, within a tolerance, the same tensors."""
    expected, actual = weights(first), weights(second)
    assert expected.keys() == actual.keys()
    for name in expected:
        torch.testing.assert_close(actual[name], expected[name], msg=name, **tolerance)
