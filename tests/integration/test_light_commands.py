"""Help, and commands that only read files, import neither torch nor fairseq, and answer at once."""

import math
import platform
import shlex
import subprocess

import pytest

from convs2s import __version__
from convs2s.cli import COMMANDS
from convs2s.cli.commands import EXAMPLES, GROUPS, full_parser
from tests import ROOT
from tests.support.light import HEAVY, MAX_MEGABYTES, assert_light, max_seconds, run


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name):
    assert COMMANDS[name] in " ".join(assert_light(name, "--help").split())


def test_help_lists_every_command():
    shown = " ".join(assert_light("--help").split())
    for name, text in COMMANDS.items():
        assert f"{name} {text}" in shown


@pytest.mark.parametrize(
    "arguments, code, answer",
    [
        (["path"], 0, str(ROOT / "convs2s_plugin")),
        (["--version"], 0, f"convs2s {__version__}"),
        (["--help"], 0, "usage: convs2s [-h] [--version] COMMAND ..."),
        (["architectures", "--help"], 0, COMMANDS["flops"]),
        ([], 2, "convs2s: error: the following arguments are required: COMMAND"),
        (["path", "--hel"], 0, COMMANDS["path"]),
        (
            ["paht"],
            2,
            "convs2s: error: argument COMMAND: there is no 'paht' (did you mean 'path'?)",
        ),
        (["zzz"], 2, "there is no 'zzz'; allowed: prepare, train, "),
        (["--verison"], 2, "unrecognized arguments: --verison (did you mean '--version'?)"),
        (
            ["path", "more"],
            2,
            "convs2s path: error: unrecognized arguments: more. See `convs2s path",
        ),
        (
            ["translate", "--beem", "3"],
            2,
            "convs2s translate: error: unrecognized arguments: --beem",
        ),
        (
            ["translate", "--beem", "3"],
            2,
            "did you mean '--beam'?). See `convs2s translate --help`",
        ),
        (["translate", "--path", "x", "--beem=3"], 2, "did you mean '--beam'"),
        (["translate", "--path", "x", "--be"], 2, "argument --beam: expected one argument. See"),
        (
            ["adl", "explian"],
            2,
            "convs2s adl: error: argument explain | draw | verify | import | list | layers: there "
            "is no",
        ),
        (["adl", "explain", "rnn", "--wrods", "3"], 2, "convs2s adl explain: error: unrecognized"),
        (["adl", "explain", "rnn", "--wrods", "3"], 2, "did you mean '--words'"),
        (["adl", "explain", "pos -> res(cn)"], 2, "DECODER is missing"),
        (["adl", "explain", "let a = rnn; a"], 2, "DECODER is missing"),
        (["train", ".", "--minutes", "nan"], 2, "--minutes is nan"),
        (["adl", "import", "x.json"], 2, "There is no file x.json."),
        (["adl", "explain", "adl_transformer", "rnn"], 2, "adl_transformer names both sides"),
        (["adl", "explain", "adl_rnmt", "--dialect", "sockeye"], 2, "--dialect is for two chains"),
        (["adl", "verify", "adl_rnmt", "--input-feeding"], 2, "--input-feeding is for two"),
        (["plot", "lenghts"], 2, "there is no 'lenghts' (did you mean 'lengths'?)"),
        (
            ["rerank", "README.md", "--utility", "bleuu"],
            2,
            "argument --utility: there is no 'bleuu'",
        ),
        (["evaluate", "--metricks", "bleu"], 2, "did you mean '--metrics'"),
        # Misspelled options of fairseq-train are known to fairseq-train alone.
        (["train", "--drpout"], 2, "the following arguments are required: DATA"),
    ],
)
def test_answers_of_the_parser(arguments, code, answer):
    got, output, errors, modules, seconds, megabytes = run(*arguments)
    assert got == code and not modules & HEAVY
    assert answer in (errors if code else " ".join(output.split()))
    assert errors.count("\n") == (1 if code else 0)
    assert seconds <= max_seconds() and megabytes <= MAX_MEGABYTES


@pytest.mark.parametrize(
    "command",
    [
        "translate --path nope",
        "translate --path a.pt --input nope",
        "translate --path a.pt --lexicon nope",
        "translate --path a.pt --data nope",
        "translate --path a.pt --preparation nope",
        "translate --path a.pt --user-dir nope",
        "translate --path a.pt --beam 2 --nbest 5",
        "plot-attention hello --path nope --output a.png",
        "quantize nope b.pt",
        "average --inputs a.pt nope --output b.pt",
        "clean-checkpoint nope b.pt",
        "convert-attn2d nope b.pt",
        "convert-fconv nope b.pt",
        "convert-lightconv nope b.pt",
        "export-onnx nope onnx",
        "compile nope",
        "export-transformer nope b.pt",
        "rerank nope --utility bleu",
        "evaluate nope --references a.pt",
        "evaluate a.pt --references nope",
    ],
)
def test_what_is_missing_is_said_at_once(tmp_path, command):
    (tmp_path / "a.pt").touch()
    code, _, errors, modules, seconds, _ = run(*command.split(), folder=tmp_path)
    assert code == 2 and not modules & HEAVY
    assert ("--nbest" if "nbest" in command else "nope") in errors.splitlines()[-1]
    assert seconds <= max_seconds()


def test_only_the_chosen_command_is_imported():
    *_, modules, _, _ = run("path")
    commands = {name for name in modules if name.startswith("convs2s.cli.")}
    assert commands == {f"convs2s.cli.{name}" for name in ("commands", "path")}


@pytest.fixture
def texts(tmp_path):
    """A folder of translations, references, links and n-best lists of two sentences."""
    files = {
        "references": "two dogs run in the park .\na man sleeps on a red bench .\n",
        "first": "two dogs run in a park .\na man sleeps on the bench .\n",
        "second": "dogs run in the park .\na man is on a red bench .\n",
        "gold": "0-0 1-1\n0-0 1p1\n",
        "links": "0-0 1-1\n0-0\n",
        "lists": "1\t-0.5\ttwo dogs run\n1\t-0.7\tdogs run\n2\t-1.0\ta man sleeps\n",
        "scores": "-1\n-0.5\n-1\n",
        "weights": '{"score": 0, "words": 0, "other": 1}',
        "log": '{"epoch": 1, "num_updates": "10", "loss": "9.5"}\n'
        '{"epoch": 1, "num_updates": "20", "loss": "8.5"}\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "command, answer",
    [
        ("evaluate first --references references", "| system |"),
        ("evaluate --links links --gold-links gold", "| alignment error rate |"),
        ("rerank lists --utility chrf", "a man sleeps"),
        ("rerank lists --scores other=scores --weights weights", "dogs run\na man sleeps"),
    ],
)
def test_commands_on_files(command, answer, texts):
    output = assert_light(*command.split(), folder=texts)
    squeezed = "\n".join(" ".join(line.split()) for line in output.splitlines())
    assert answer in squeezed


@pytest.mark.parametrize(
    "arguments", [["--dry-run", "--smoke"], ["--list"], ["--report"], ["--schema"]]
)
def test_experiments_that_start_nothing(arguments, tmp_path):
    (tmp_path / "compare_out" / "runs").mkdir(parents=True)
    file = str(ROOT / "examples" / "multi30k" / "compare.yaml")
    output = assert_light("experiment", file, *arguments, folder=tmp_path)
    assert len(output.splitlines()) > 10


def test_a_comparison_of_files_needs_no_model(texts):
    """Its 1,000 resamples take longer."""
    code, output, _, modules, _, megabytes = run(
        *"evaluate first second --references references".split(), folder=texts, limit=math.inf
    )
    assert code == 0 and "(p = " in output
    assert not modules & HEAVY and megabytes <= MAX_MEGABYTES


def test_plots_need_no_model(texts):
    # matplotlib alone takes as long as other commands may.
    limit = 3 * max_seconds()
    code, output, _, modules, seconds, megabytes = run(
        "plot", "training", "log", folder=texts, limit=limit
    )
    assert code == 0 and output == "training.png"
    assert modules & HEAVY == {"matplotlib"}
    assert seconds <= limit and megabytes <= MAX_MEGABYTES
    code, _, errors, *_, seconds, megabytes = run("plot", "lengths", "log", folder=texts)
    assert code == 2 and "log has no BLEU by length" in errors
    assert seconds <= max_seconds() and megabytes <= MAX_MEGABYTES


def test_every_command_is_in_a_group():
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(COMMANDS) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_the_help_is_a_command_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(EXAMPLES[name].partition(" >")[0])
    for word in words:
        if word.endswith((".pt", ".pth", ".de", ".en", ".txt")):
            (tmp_path / word).touch()
    (tmp_path / "prepared").mkdir()
    args, others = full_parser().parse_known_args([name, *words])
    assert args.command == name
    assert others == (["--dropout", "0.2"] if name == "flops" else [])
    assert f"\nexample:\n  convs2s {name} {EXAMPLES[name]}".rstrip() in assert_light(name, "--help")


@pytest.mark.parametrize(
    "words, expected",
    [
        (["tran"], ["translate"]),
        (["translate", "--replace"], ["--replace-unk"]),
        (["translate", "--autocast-dtype", "bf"], ["bfloat16"]),
        (["adl", "expl"], ["explain"]),
        (["average", "--inputs", "a."], ["a.pt"]),
        (["experiment", "a."], ["a.pt"]),
        (["evaluate", "--links", "a."], ["a.pt"]),
        (["export-onnx", "a.pt", "a."], ["a.pt"]),
        (["plot", "training", "a."], ["a.pt"]),
    ],
)
def test_a_shell_completes(words, expected, tmp_path):
    (tmp_path / "a.pt").touch()
    script = tmp_path / "completion"
    code, output, *_ = run("completion", "bash")
    assert code == 0
    script.write_text(output, encoding="utf-8")
    typed = " ".join(["convs2s", *words])
    command = (
        f"source {script}; COMP_WORDS=({typed}); COMP_CWORD={len(words)}; "
        'complete -p convs2s >/dev/null && _shtab_convs2s; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()) == (0, expected), done.stderr


def test_version():
    printed = dict(line.split(" ", 1) for line in assert_light("--version").splitlines())
    assert printed["convs2s"] == __version__ and printed["Python"] == platform.python_version()
    assert printed["torch"][0].isdigit() and "fairseq" in printed
