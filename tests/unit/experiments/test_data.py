"""Languages, sub-words, binarized data and downloads of an experiment."""

import hashlib
import random
from types import SimpleNamespace

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments import data
from convs2s.experiments.file import DataSettings
from convs2s.experiments.results import Workplace
from convs2s.experiments.run import Job
from convs2s.text import workflow
from convs2s.text.binarize import write_numbers

from .words import change, commands, results

WORDS = (
    "ein mann hund läuft über die grüne wiese und sieht zwei kleine kinder beim spielen im park "
    ". , 's"
).split()
# Of all files that subword-nmt and fairseq-preprocess made from this text, with their names.
DIGESTS = {
    True: "0ca9e0f6059886b26190119784c87adcca5b85da273a72381eb887010e62b2a0",
    False: "3067be1d4bdd187061c39bbae8204877883b423ea5f6cf354aaf83d7593b368a",
}


@pytest.mark.parametrize("joined", [True, False])
def test_data_are_those_of_the_published_runs(joined, tmp_path):
    """Their text was prepared by the programs of subword-nmt and fairseq."""
    text = tmp_path / "text"
    text.mkdir()
    sizes = {"train": 200, "valid": 20, "test_a": 20, "test_b": 15}
    for place, (split, size) in enumerate(sizes.items()):
        for side, language in enumerate(("de", "en")):
            numbers = random.Random(2 * place + side)
            lines = [" ".join(numbers.choices(WORDS, k=numbers.randint(1, 9))) for _ in range(size)]
            lines[3:5] = ["", " a\u00a0b  c\td "]
            content = "".join(f"{line}\n" for line in lines)
            (text / f"{split}.{language}").write_text(content, encoding="utf-8")
    settings = DataSettings("de", "en", text, bpe_merges=40, joined_dictionary=joined)
    made = data.prepare_data(settings, data.DataFolders(tmp_path / "out"), False, False, print)
    assert made.tests == {"test_a": "test", "test_b": "test1"}
    out = tmp_path / "out" / "data"
    paths = [out / "codes.bpe", *out.glob("tokens/*"), *out.glob("data-bin/*")]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(out)}\n".encode() + path.read_bytes())
    assert len(paths) == 27 and digest.hexdigest() == DIGESTS[joined]


def test_other_direction_and_few_updates(start, folder):
    code, printed = start("--source", "en", "--target", "de", "--limit-updates", 3, "--seeds", 1)
    assert code == 0 and "No run has more than 3 updates." in printed
    assert "in de" in (folder / "words_out/references/valid").read_text()
    assert results(folder)["a.1"]["options"]["total-num-update"] == "3"


@pytest.mark.parametrize("merges", [7, 0])
def test_other_number_of_merges(start, monkeypatch, merges):
    given = []
    prepare = workflow.prepare_tokens
    monkeypatch.setattr(workflow, "prepare_tokens", lambda *all: (given.extend(all), prepare(*all)))
    start("--bpe-merges", merges, "--systems", "b, c", "--seeds", 1)
    assert given[2:] == [["test_1", "test_2"], given[0].parent, merges, False]


BACK_TRANSLATION = """
  backward: {updates: 2, train: {arch: some}, reverse: true}
  more: {updates: 2, train: {arch: some}, train_on: {back_translations: {backward: 1}}}
"""


def test_binarized_data(start, folder):
    data = folder / "bin-en"
    data.mkdir()
    for name in ("train.en-de.en.bin", "test.en-de.en.bin", "test1.en-de.en.bin"):
        (data / name).touch()
    for subset in ("valid", "test", "test1"):
        for side in ("source", "target"):
            (data / f"{subset}.{side}").write_text("one\ntwo\n")
    arguments = ("--data-bin", data, "--systems", "b, c", "--seeds", 1)
    with pytest.raises(UserError, match="no training data from de to en"):
        start(*arguments)
    assert start(*arguments, "--source", "en", "--target", "de")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test", "test1"]
    assert (folder / "words_out/references/test1").read_text() == "one\ntwo\n"
    with pytest.raises(UserError, match="made with data.bin .*bin-en"):
        start("--source", "en", "--target", "de")
    change(folder, "{source: de,", "{monolingual: news.en, source: de,")
    change(folder, "  d:\n", f"{BACK_TRANSLATION}  d:\n")
    with pytest.raises(UserError, match="data has both monolingual and bin, which does not say"):
        start(*arguments, "--source", "en", "--target", "de")


def test_options_that_prepared_data_exclude(start, folder):
    """The text and the merges of the file are not used."""
    assert "bpe_merges: 20" in (folder / "words.yaml").read_text()
    change(folder, "average: 2", "average: 2\ngenerate: {remove-bpe: true}")
    with pytest.raises(
        UserError, match=r"systems\.a has the option remove-bpe, but data\.prepared"
    ):
        start("--prepared", "made")
    assert start("--dry-run")[0] == 0


PREPARED = """
format: 1
languages: {source: de, target: en}
tokenizer: TOKENIZER
subwords: {method: none}
dictionaries: {source: {file: a, sha256: b}, target: {file: a, sha256: b}}
"""


@pytest.mark.parametrize("tokenizer", ["moses", "characters", "none/letters", "letters/moses"])
def test_prepared_data(tokenizer, start, folder):
    """Scores are those of plain text, and the options that join sub-words those of the data."""
    change(folder, "source: de, target: en, text: text, bpe_merges: 20", "prepared: made")
    with pytest.raises(UserError, match="There is no file .*made/preparation.yaml: give the"):
        start()
    made = folder / "made"
    for name in ("data-bin", "text"):
        (made / name).mkdir(parents=True)
    (made / "preparation.yaml").write_text(PREPARED.replace("TOKENIZER", tokenizer))
    for name in ("train.de-en.en.bin", "test.de-en.en.bin"):
        (made / "data-bin" / name).touch()
    for subset in ("valid", "test"):
        for side in ("source", "target"):
            (made / "data-bin" / f"{subset}.{side}").write_text("ein Hund .\nx\n")
        (made / "text" / f"{subset}.en").write_text("A dog.\nx\n")
    with pytest.raises(UserError, match="no training data from fr to any language; it has de-en"):
        start("--source", "fr")
    with pytest.raises(UserError, match="--bpe-merges cannot change binarized data, .*made"):
        start("--bpe-merges", 7)
    code, printed = start("--systems", "b, c", "--seeds", 1)
    assert code == 0 and "sacreBLEU and chrF on the plain text." in printed
    out = folder / "words_out"
    assert (out / "references/test").read_text() == "A dog.\nx\n"
    hypotheses = (out / "runs/b_c.1/test.hyp").read_text()
    assert hypotheses == ("ein Hund.\n\n" if "moses" in tokenizer else "ein Hund .\n\n")
    generated = [line for line in commands(folder) if line.startswith("fairseq-generate")]
    assert all("made/data-bin" in line for line in generated)
    joined = ["--remove-bpe sentencepiece" in line for line in generated]
    assert joined == ["moses" not in tokenizer] * 2
    # Nothing is repeated, and other data is refused; a smoke run has its own.
    assert "1 of 1 runs were finished before." in start("--systems", "b, c", "--seeds", 1)[1]
    with pytest.raises(UserError, match="words_out/data was made with data.source None"):
        start("--text", "text", "--source", "de", "--target", "en")
    smoke = start("--smoke", "--systems", "b, c", "--source", "de", "--target", "en")
    assert smoke[0] == 0 and "plain text" in smoke[1] and "on the plain text" not in smoke[1]


def test_download(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/text/{{name}}.{{language}}"')
    for language in ("de", "en"):
        (folder / f"text/train.lc.{language}.gz").rename(folder / f"text/train.{language}")
        (folder / f"text/train.{language}").write_text("a\nb\n")
    change(folder, "data: {", "data: {download_names: {train: train, valid: val, test: test_1}, ")
    with pytest.raises(UserError, match="no text: .* --text, or --down"):
        start()
    assert "# makes words_out/data with text" in start("--download", "--dry-run")[1]
    assert start("--download", "--systems", "b, c")[0] == 0
    assert list(results(folder)["b_c.1"]["splits"]) == ["valid", "test_1"]


def test_a_download_that_fails(start, folder):
    change(folder, "text: text", f'download: "file://{folder}/nowhere/{{name}}.{{language}}"')
    with pytest.raises(UserError, match=r"nowhere/train\S*\.de cannot be downloaded: No such file"):
        start("--download")
    assert not list((folder / "words_out/data/download").iterdir())


def test_text_without_lines_and_without_files(tmp_path):
    folder = data.TextFolder(tmp_path, ("de", "en"))
    with pytest.raises(UserError, match="has no file dev or valid in de or en, such as dev.de or "):
        folder.first(["dev", "valid"])
    for language in ("de", "en"):
        (tmp_path / f"valid.{language}").touch()
    name, pair = data.TextFolder(tmp_path, ("de", "en")).first(["dev", "valid"])
    assert name == "valid"
    (tmp_path / "new").mkdir()
    with pytest.raises(UserError, match=r"valid\.de and .*valid\.en have no lines"):
        data.unpack_pair(pair, tmp_path / "new", "valid", ("de", "en"))


def test_references_of_other_data(tmp_path):
    """A line more or less would score all further translations against other references."""
    binarized = data.Data(tmp_path / "data", "de", "en", {"test": "test"})
    binarized.bin.mkdir()
    write_numbers(binarized.bin / "valid.de-en.en", [[4, 2], [2]], 8)
    (tmp_path / "references").mkdir()
    (tmp_path / "references" / "valid").write_text("a\nb\nc\n")
    place = Workplace(tmp_path, {"": binarized}, None, None)
    job = Job(place, SimpleNamespace(name="run", data_set=""), 0, print)
    with pytest.raises(UserError, match="valid has 3 lines, but valid has 2 sentences in"):
        job.write_texts("valid", "")
    (tmp_path / "references" / "valid").write_text("a\nb\n")
    job.folder.mkdir(parents=True)
    job.write_texts("valid", "H-1\t-0.1\ta \\</s> b\nH-0\t-0.2\tc@@\\\n")
    assert (job.folder / "valid.hyp").read_text() == "c@@\na </s> b\n"
