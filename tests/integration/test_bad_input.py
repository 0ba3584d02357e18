"""Wrong input: one sentence and a non-zero exit status; no output line is lost or shifted."""

import shutil

import pytest

from tests.support.commands import (
    PLUGIN,
    TASK,
    TINY,
    fairseq,
    hypotheses,
    refused,
    run,
    server,
    train_arguments,
)

BAD_OPTIONS = {
    "syntax": (("--encoder-layers", "[(32, 3)] * 2 +"), "expected '[', found the end"),
    "not a list": (("--decoder-layers", "import os"), "expected '['"),
    "width 0": (("--encoder-layers", "[(0, 3)]"), "the number of channels is 0"),
    "kernel 0": (("--decoder-layers", "[(32, 0)]"), "the kernel size is 0"),
    "attention": (("--decoder-attention", "[True]"), "1 flags, but the decoder has 2 layers"),
    "no attention": (("--decoder-attention", "False"), "no decoder layer attends"),
    "different widths": (("--encoder-embed-dim", "16"), "same number of channels on both sides"),
    "tied widths": (
        ("--share-input-output-embed", "--decoder-out-embed-dim", "16"),
        "only if both are the same",
    ),
    "two dictionaries": (("--share-all-embeddings",), "--joined-dictionary"),
    "dropout": (("--dropout", "1.5"), "--dropout is 1.5"),
    "vectors": (("--encoder-embed-path", "/dev/null"), "/dev/null cannot be read: it is empty"),
    "no vectors": (("--encoder-embed-path", "no/such/file"), "no/such/file cannot be read"),
}


@pytest.mark.parametrize("name", BAD_OPTIONS)
def test_options(name, corpus, tmp_path):
    arguments, message = BAD_OPTIONS[name]
    sentence = refused(run("train", *train_arguments(corpus, tmp_path, *arguments, options=TINY)))
    assert message in sentence


def ask(corpus, checkpoint, text, *arguments, data=None, **options):
    return run(
        "interactive",
        data or corpus / "bin",
        "--user-dir",
        PLUGIN,
        "--path",
        checkpoint,
        "--cpu",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--buffer-size",
        "10",
        *arguments,
        text=text,
        **options,
    )


def test_a_dictionary_that_does_not_fit_the_checkpoint(corpus, trained, tmp_path):
    other = tmp_path / "bin"
    fairseq(
        "preprocess",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--destdir",
        other,
        "--trainpref",
        corpus / "test",
        "--nwordssrc",
        "8",
    )
    sentence = refused(ask(corpus, trained / "checkpoint_last.pt", "eins\n", data=other))
    assert "trained with a source vocabulary of 16 tokens" in sentence and "has 8" in sentence
    assert "--srcdict" in sentence


def test_a_checkpoint_of_another_architecture(corpus, trained):
    sentence = refused(
        ask(
            corpus,
            trained / "checkpoint_last.pt",
            "eins\n",
            "--model-overrides",
            "{'encoder_layers': '[(32, 3)] * 3'}",
        )
    )
    assert "another architecture" in sentence and "missing" in sentence


def test_a_truncated_checkpoint(corpus, trained, tmp_path):
    cut = tmp_path / "cut.pt"
    whole = (trained / "checkpoint_last.pt").read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    sentence = refused(ask(corpus, cut, "eins\n"))
    assert str(cut) in sentence and "not a complete checkpoint" in sentence


def test_resuming_from_a_truncated_checkpoint(corpus, trained, tmp_path):
    whole = (trained / "checkpoint_last.pt").read_bytes()
    (tmp_path / "checkpoint_last.pt").write_bytes(whole[: len(whole) // 2])
    sentence = refused(run("train", *train_arguments(corpus, tmp_path, "--max-epoch", "1")))
    assert "checkpoint_last.pt" in sentence and "not a complete checkpoint" in sentence


def interactive_with(errors):
    """What starts fairseq-interactive with such a way to decode invalid bytes, as locales have."""
    setup = (
        f"import sys; sys.stdin.reconfigure(encoding='utf-8', errors='{errors}'); "
        "from fairseq_cli.interactive import cli_main; cli_main()"
    )

    def start(name, *arguments):
        return [server().programs / "python", "-c", setup, *map(str, arguments)]

    return start


def test_invalid_utf8(corpus, trained, tmp_path):
    """An error if Python decodes strictly; an unknown word if the locale lets the byte through."""
    text = b"eins\nzwei\rdrei\nzw\xf6lf\nneun\n"
    checkpoint = trained / "checkpoint_last.pt"
    done = ask(corpus, checkpoint, text, start=interactive_with("strict"))
    assert "the input, line 3: byte 0xf6" in refused(done)
    assert "iconv" in done.stderr
    # The lines before it are translated, although the buffer is not full.
    assert sorted(hypotheses(done.stdout)) == [0, 1]
    done = ask(corpus, checkpoint, text, start=interactive_with("surrogateescape"))
    assert done.returncode == 0 and sorted(hypotheses(done.stdout)) == [0, 1, 2, 3]
    (tmp_path / "text").write_bytes(text)
    done = ask(corpus, checkpoint, b"", "--input", tmp_path / "text")
    assert f"{tmp_path / 'text'}, line 3: byte 0xf6" in refused(done)


def test_missing_files(corpus, trained, tmp_path):
    checkpoint = trained / "checkpoint_last.pt"
    sentence = refused(ask(corpus, trained, "eins\n"))
    assert f"{trained} is a folder: give a checkpoint" in sentence
    assert (
        refused(ask(corpus, tmp_path / "no.pt", "", *TASK))
        == f"There is no checkpoint {tmp_path}/no.pt."
    )
    assert "There is no dictionary" in refused(ask(corpus, checkpoint, "", *TASK, data=tmp_path))
    sentence = refused(
        ask(corpus, checkpoint, "", "--bpe", "subword_nmt", "--bpe-codes", checkpoint)
    )
    assert f"{checkpoint} cannot be read as codes of subword-nmt" in sentence


def test_damaged_data(corpus, tmp_path):
    data = tmp_path / "bin"
    shutil.copytree(corpus / "bin", data)
    file = data / "train.de-en.en.bin"
    file.write_bytes(file.read_bytes()[:100])
    arguments = train_arguments(tmp_path, tmp_path / "saved")
    assert f"{file} is damaged: it has 100 bytes" in refused(run("train", *arguments))
    file.unlink()
    assert f"There is no file {file}" in refused(run("train", *arguments))


def test_a_line_of_5000_words(corpus, trained):
    text = "zehn\n" + "eins " * 5000 + "\nneun\n"
    sentence = refused(ask(corpus, trained / "checkpoint_last.pt", text))
    assert "has (5001, 0) tokens" in sentence and "1024" in sentence
    skipped = ask(
        corpus,
        trained / "checkpoint_last.pt",
        text,
        "--skip-invalid-size-inputs-valid-test",
    )
    assert skipped.returncode == 0 and sorted(hypotheses(skipped.stdout)) == [0, 2]


def binarized(corpus, folder, sources, targets):
    """A test set of these lines, binarized with the dictionaries of the training."""
    folder.mkdir()
    for language, lines in (("de", sources), ("en", targets)):
        (folder / f"text.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    fairseq(
        "preprocess",
        "--source-lang",
        "de",
        "--target-lang",
        "en",
        "--destdir",
        folder / "bin",
        "--testpref",
        folder / "text",
        "--srcdict",
        corpus / "bin" / "dict.de.txt",
        "--tgtdict",
        corpus / "bin" / "dict.en.txt",
    )
    return folder / "bin"


def translate(data, trained):
    return run(
        "generate",
        data,
        "--user-dir",
        PLUGIN,
        "--path",
        trained / "checkpoint_last.pt",
        "--cpu",
    )


def test_a_long_line_of_binarized_data(corpus, trained, tmp_path):
    data = binarized(corpus, tmp_path / "long", ["eins"] * 2, ["eins-th", "eins-th " * 5000])
    sentence = refused(translate(data, trained))
    assert "has (2, 5001) tokens" in sentence


def test_empty_and_unknown_lines_of_binarized_data(corpus, trained, tmp_path):
    lines = ["zehn", "", "nie gesehen", ""]
    done = translate(binarized(corpus, tmp_path / "empty", lines, ["zehn-th", "", "", ""]), trained)
    assert done.returncode == 0, done.stderr[-2000:]
    assert sorted(hypotheses(done.stdout)) == [0, 1, 2, 3]


def test_unknown_words_and_empty_lines_keep_their_place(corpus, trained):
    done = ask(corpus, trained / "checkpoint_last.pt", "zehn\n\nnie gesehen\n\n")
    assert done.returncode == 0
    assert sorted(hypotheses(done.stdout)) == [0, 1, 2, 3]
    assert "S-2\t<unk> <unk>" in done.stdout


def test_1024_positions_hold_1024_tokens(corpus, trained):
    """A sentence of the maximum length, end of sentence included, is translated."""
    done = ask(
        corpus,
        trained / "checkpoint_last.pt",
        "eins " * 1023 + "\n",
        "--max-len-b",
        "5",
        "--max-tokens",
        "2000",
    )
    assert done.returncode == 0 and sorted(hypotheses(done.stdout)) == [0]
    sentence = refused(ask(corpus, trained / "checkpoint_last.pt", "eins " * 1024 + "\n"))
    assert "has (1025, 0) tokens" in sentence
