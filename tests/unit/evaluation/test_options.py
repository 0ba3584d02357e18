"""Options of ``convs2s evaluate`` that another one gives their meaning are refused without it."""

import pytest

from convs2s.cli import main


@pytest.mark.parametrize(
    "arguments, message",
    [
        (
            "hyp --references ref --stem",
            "--stem is an option of ROUGE, but --metrics is bleu,chrf,",
        ),
        (
            "hyp --references ref --metrics wer --summary-bytes 75",
            "--summary-bytes is an option of ROUGE, but --metrics is wer: give systems and --metr",
        ),
        (
            "--links links --gold-links links --metrics rouge --stem",
            "--stem is an option of ROUGE, but there are no systems",
        ),
        (
            "hyp --references ref --translations out",
            "--translations out is for the translations of checkpoints, but no system is one",
        ),
        ("hyp --references ref --output=", "--output is empty: give the name of a file."),
        (
            "hyp --references ref --translations=",
            "--translations is empty: give the name of a file.",
        ),
        (
            "hyp --references ref --gold-from-one",
            "--gold-from-one needs --gold-links FILE",
        ),
        (
            "--links links --gold-links links --min-words 3",
            "--min-words counts short outputs of systems, but there are none",
        ),
        (
            "--links links --gold-links links --comet ref",
            "--comet scores systems, but there are none: omit it",
        ),
        (
            "--links links --gold-links links --length-bounds 3",
            "--length-bounds groups the sentences of systems, but there are none",
        ),
        (
            "--links links --gold-links links --tokenize zh",
            "--tokenize is for BLEU of systems, but there are none",
        ),
        (
            "--links links --gold-links links --lowercase",
            "--lowercase is for scores of systems, but there are none",
        ),
    ],
)
def test_options_without_a_meaning(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("hyp", "ref", "links"):
        (tmp_path / name).write_text("0-0\n")
    assert main(["evaluate", *arguments.split()]) == 2
    assert message in capsys.readouterr().err and not (tmp_path / "out").exists()
