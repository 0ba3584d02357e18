"""Languages, sub-words, binarized data and downloads of an experiment."""

import pytest

from convs2s.common.errors import UserError

from .words import change, results


def test_other_direction_and_few_updates(start, folder):
    code, printed = start("--source", "en", "--target", "de", "--limit-updates", 3, "--seeds", 1)
    assert code == 0 and "No run has more than 3 updates." in printed
    assert "in de" in (folder / "words_out/references/valid").read_text()
    assert results(folder)["a.1"]["options"]["total-num-update"] == "3"


def test_other_number_of_merges(start):
    assert "learn-bpe -s 7 < " in start("--bpe-merges", 7, "--dry-run")[1]
    assert "learn-bpe" not in start("--bpe-merges", 0, "--dry-run")[1]


def test_binarized_data(start, folder):
    data = folder / "bin-en"
    data.mkdir()
    for name in ("train.en-de.en.bin", "test.en-de.en.bin", "test1.en-de.en.bin"):
        (data / name).touch()
    for subset in ("valid", "test", "test1"):
        for side in ("source", "target"):
            (data / f"{subset}.{side}").write_text("one\ntwo\n")
    arguments = ("--data-bin", data, "--systems", "b, c", "--seeds", 1)
    with pytest.raises(UserError, match="has no training data from de to en; it has en-de"):
        start(*arguments)
    assert start(*arguments, "--source", "en", "--target", "de")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test", "test1"]
    assert (folder / "words_out/references/test1").read_text() == "one\ntwo\n"
    with pytest.raises(UserError, match="was made with data.bin .*bin-en, but now it is None"):
        start("--source", "en", "--target", "de")


def test_download(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/text/{{name}}.{{language}}"')
    for language in ("de", "en"):
        (folder / f"text/train.lc.{language}.gz").rename(folder / f"text/train.{language}")
        (folder / f"text/train.{language}").write_text("a\nb\n")
    change(folder, "data: {", "data: {download_names: {train: train, valid: val, test: test_1}, ")
    with pytest.raises(UserError, match="There is no text: give its folder with --text, or --down"):
        start()
    assert "apply-bpe" in start("--download", "--dry-run")[1]
    assert start("--download", "--systems", "b, c")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test_1"]


def test_a_download_that_fails(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/nowhere/{{name}}.{{language}}"')
    with pytest.raises(UserError, match=r"nowhere/train\S*\.de cannot be downloaded: No such file"):
        start("--download")
    assert not list((folder / "words_out/data/download").iterdir())
