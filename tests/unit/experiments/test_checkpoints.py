"""The model that translates, and the model that a training begins with."""

from pathlib import Path

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments import run
from convs2s.experiments.file import Averaging, System
from convs2s.experiments.runs import Run

from .words import change, commands, results


@pytest.mark.parametrize(
    "old, new, average, options",
    [
        (
            # After 4 updates, the interval ends with an epoch.
            "average: 2",
            "average: {checkpoints: 3, every: 0.25}",
            "checkpoint_1_4.pt checkpoint_1_6.pt checkpoint_last.pt",
            "--save-interval-updates 2 --keep-interval-updates 3 --no-epoch-checkpoints",
        ),
        (
            # Checkpoints within epochs are only there to resume.
            "fp16: true}",
            "fp16: true, save-interval-updates: 2}",
            "checkpoint2.pt checkpoint_last.pt",
            "--keep-last-epochs 2 --keep-interval-updates 1",
        ),
        ("average: 2", "average: best", "checkpoint_best.pt", "--no-epoch-checkpoints"),
    ],
)
def test_the_checkpoints_of_an_average(start, folder, old, new, average, options):
    change(folder, old, new)
    start("--systems", "a", "--seeds", 1)
    assert (folder / "words_out/runs/a.1/average.pt").read_text() == average
    (training,) = [line for line in commands(folder) if "--max-update 8" in line]
    assert options in training


@pytest.mark.parametrize(
    "total, after, saved, average",
    [
        (8, 0, "2 4 6 8", "4 6"),
        # It ended before all of its updates: because of --patience, for example.
        (7, 0, "2 4 6", "4 6"),
        (3, 0, "2", "2"),
        (1, 0, "", ""),
        # fairseq saves none before these updates.
        (8, 6, "6 8", "6"),
        (8, 0, "6 8", None),
        (8, 0, "2 4 8", None),
    ],
)
def test_an_average_has_the_checkpoints_of_its_intervals(
    tmp_path, monkeypatch, total, after, saved, average
):
    """Others do not take the place of one that is missing."""
    names = {f"checkpoint_1_{number}.pt": int(number) for number in saved.split()}
    if "4" in saved:
        # A version before saved the last update of an epoch under this name.
        del names["checkpoint_1_4.pt"]
        names["checkpoint2.pt"] = 4
    found = names | {"checkpoint_best.pt": 2, "checkpoint1.pt": 1, "checkpoint_last.pt": total}
    monkeypatch.setattr(run, "saved_checkpoints", lambda _: dict(found))
    system = System(name="a", average=Averaging(3, every=0.25))
    training = Run(system, 1, 8, {"validate-after-updates": after})
    if average is None:
        with pytest.raises(
            UserError, match=r"no checkpoint after . updates.*3 checkpoints, one ev"
        ):
            run.last_checkpoints(tmp_path, training)
        return
    files = {number: name for name, number in names.items()}
    expected = [files[int(number)] for number in average.split()] + ["checkpoint_last.pt"]
    assert [path.name for path in run.last_checkpoints(tmp_path, training)] == expected


def test_a_last_checkpoint_that_cannot_be_read_is_no_average(tmp_path):
    (tmp_path / "checkpoint_last.pt").write_bytes(b"damaged")
    training = Run(System(name="a", average=Averaging(3)), 1, 8, {})
    with pytest.raises(UserError, match=r"checkpoint_last\.pt is damaged.*remove .* to train"):
        run.last_checkpoints(tmp_path, training)


def test_a_training_continues_that_of_another_system(start, folder):
    """Run 1 of e has no run of b with its seed; the trials of e continue it, too."""
    change(
        folder,
        "  d:\n",
        "  e: {updates: 4, continues: 'b, c', train: {arch: other},\n"
        "      seeds: [2, 5], trials: {lr: [3, 4]}}\n  d:\n",
    )
    code, _ = start("--systems", "e", "--jobs", 2)
    assert code == 0
    assert sorted(results(folder)) == ["b_c.1", "b_c.2", "e.2", "e.5", "e.trial1", "e.trial2"]
    begins = {}
    for line in commands(folder):
        if "fairseq-train" in line:
            words = line.split()
            name = Path(words[words.index("--save-dir") + 1]).parent.name
            given = "--finetune-from-model" in words
            begins[name] = words[words.index("--finetune-from-model") + 1] if given else None
    first, second = (f"words_out/runs/{name}/average.pt" for name in ("b_c.1", "b_c.2"))
    assert begins.pop("b_c.1") is None and begins.pop("b_c.2") is None
    assert begins == {"e.2": second, "e.5": first, "e.trial1": first, "e.trial2": first}
    code, printed = start("--systems", "e", "--dry-run")
    assert code == 0 and "fairseq-train" not in printed
