"""``convs2s plot training`` reads what fairseq-train writes."""

import pytest

from convs2s.cli import main
from convs2s.pictures.training import read_training_curves
from tests.support.commands import TINY, fairseq, train_arguments


@pytest.mark.parametrize("log_format", ["json", "simple"])
def test_the_log_file_has_the_curves_of_the_printed_log(log_format, corpus, tmp_path):
    """--log-file has no time stamps, and lines of later epochs several times."""
    printed = fairseq(
        "train",
        *train_arguments(corpus, tmp_path / "checkpoints", "--log-interval", "1", options=TINY),
        "--log-format",
        log_format,
        "--log-file",
        tmp_path / "file.log",
        "--max-epoch",
        "2",
        "--no-save",
    )
    (tmp_path / "printed.log").write_text(printed, encoding="utf-8")
    of_file, of_printed = (
        read_training_curves(str(tmp_path / name)) for name in ("file.log", "printed.log")
    )
    assert of_file == of_printed
    assert len(of_file.train["loss"]) > 1 and len(of_file.valid["loss"]) == 2
    output = tmp_path / "curves.png"
    assert main(["plot", "training", str(tmp_path / "file.log"), "--output", str(output)]) == 0
    assert output.read_bytes().startswith(b"\x89PNG")
