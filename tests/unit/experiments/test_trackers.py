"""Reports that trackers record, with stand-ins of their packages and with those installed."""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.trackers import ENVIRONMENT, TRACKERS

from .words import results

PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8"
    "cfc0000003010100c9fe92ef0000000049454e44ae426082"
)


class StandIn(ModuleType):
    """A package with the functions that are used; it writes down the calls."""

    def __init__(self, name):
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.calls = []

    def __getattr__(self, function):
        if function.startswith("__"):
            raise AttributeError(function)

        def call(*arguments, **named):
            self.calls.append((function, *arguments, named))
            return self

        return call

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.calls.append(("end",))


@pytest.fixture
def finished(start, folder, monkeypatch):
    """The folder of a finished experiment with a picture."""
    for name in ENVIRONMENT:
        # What the command sets is unset afterwards only if it was set before.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    assert start()[0] == 0
    (folder / "words_out/sweep.png").write_bytes(PICTURE)
    return folder / "words_out"


def stand_in(name, monkeypatch):
    """The stand-in of a package."""
    package = StandIn(name)
    monkeypatch.setitem(sys.modules, name, package)
    return package


@pytest.mark.parametrize("name", ["trackio", "wandb"])
def test_runs_tables_and_pictures(start, finished, monkeypatch, name):
    package = stand_in(name, monkeypatch)
    code, printed = start("--report", "--tracker", name)
    assert code == 0
    assert f"{name} has recorded 8 runs and the report in the project words_out." in printed
    started = [call[-1] for call in package.calls if call[0] == "init"]
    assert {call["project"] for call in started} == {"words_out"}
    names = [call["name"] for call in started]
    assert sorted(names) == sorted([*results(finished.parent), "report"])
    trial = started[names.index("a.trial1")]["config"]
    assert trial["train.lr"] == "4" and trial["title"] == "a"
    scores = [call[1] for call in package.calls if call[0] == "log"]
    assert scores[names.index("a.1")]["test_1.bleu"] == 10
    assert set(scores[-1]) == {"table", "report", "sweep"}
    table = next(call[-1] for call in package.calls if call[0] == "Table")
    assert table["columns"][0] == "system" and table["data"][0][0] == "a"
    assert [call[0] for call in package.calls].count("finish") == len(names)


def test_mlflow(start, finished, monkeypatch):
    package = stand_in("mlflow", monkeypatch)
    assert start("--report", "--tracker", "mlflow")[0] == 0
    assert package.calls[0] == ("set_experiment", "words_out", {})
    names = [call[-1]["run_name"] for call in package.calls if call[0] == "start_run"]
    assert sorted(names) == sorted([*results(finished.parent), "report"])
    files = [call[1].rpartition("/")[2] for call in package.calls if call[0] == "log_artifact"]
    assert files == ["table.md", "table.csv", "sweep.png"]
    scores = [call[1] for call in package.calls if call[0] == "log_metrics"]
    assert scores and all(isinstance(each["valid.bleu"], float) for each in scores)


def test_nothing_is_sent_unless_the_user_says_so(start, finished, monkeypatch):
    stand_in("wandb", monkeypatch)
    monkeypatch.setenv("WANDB_SILENT", "false")
    start("--report", "--tracker", "wandb")
    assert os.environ["WANDB_MODE"] == "offline" and os.environ["WANDB_SILENT"] == "false"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


@pytest.mark.parametrize("options", [[], ["--dry-run"], ["--report"]])
def test_a_tracker_that_is_not_installed(start, folder, monkeypatch, options):
    monkeypatch.setattr("convs2s.experiments.trackers.find_spec", lambda name: None)
    with pytest.raises(UserError, match="--tracker wandb needs the package .* `pip install wandb`"):
        start(*options, "--tracker", "wandb")
    assert not (folder / "words_out").exists()


def test_a_tracker_that_fails(start, finished, monkeypatch):
    def fail(*_, **named):
        raise OSError("no\nserver")

    stand_in("wandb", monkeypatch).init = fail
    with pytest.raises(UserError, match="wandb did not record the report: no server. `--report --"):
        start("--tracker", "wandb")


@pytest.mark.parametrize("name", TRACKERS)
def test_the_packages_themselves(start, finished, monkeypatch, name):
    # It is read when the package is imported.
    monkeypatch.setenv("TRACKIO_DIR", str(finished / "trackio"))
    pytest.importorskip(name)
    monkeypatch.chdir(finished.parent)
    assert start("--report", "--tracker", name)[0] == 0
    pattern = {
        "trackio": "words_out/trackio/*.db",
        "wandb": "wandb/offline-run-*/*.wandb",
        "mlflow": "mlruns/*/*/artifacts/sweep.png",
    }[name]
    assert [*finished.parent.glob(pattern)]
