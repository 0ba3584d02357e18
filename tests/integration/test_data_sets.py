"""Data sets of fairseq's commands: too long, without translations, several, of other formats."""

import re
import shutil

import pytest

from tests.support.commands import (
    CRITERION,
    PLUGIN,
    TASK,
    TINY,
    assert_same_weights,
    fairseq,
    hypotheses,
    refused,
    run,
    train,
    train_arguments,
)

TASKS = pytest.mark.parametrize("task", [(), (*TASK, *CRITERION)], ids=["fairseq's", "ours"])
ONE = ("--max-epoch", "1", "--no-save")


def preprocess(corpus, folder, *options):
    """Binarize more text with the dictionaries of the training."""
    fairseq(
        "preprocess",
        *("--source-lang", "de", "--target-lang", "en", "--destdir", folder),
        *("--srcdict", corpus / "bin" / "dict.de.txt"),
        *options,
    )
    return folder


def both(corpus):
    return ("--tgtdict", corpus / "bin" / "dict.en.txt")


@pytest.fixture(scope="module")
def long(corpus, tmp_path_factory):
    """A corpus whose validation and test sets have a sentence of 60 words."""
    folder = tmp_path_factory.mktemp("long")
    for language, word in (("de", "eins"), ("en", "eins-th")):
        lines = (corpus / f"test.{language}").read_text("utf-8").splitlines()
        lines[4] = " ".join([word] * 60)
        (folder / f"long.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sets = [f"--{name}pref={folder / 'long'}" for name in ("train", "valid", "test")]
    preprocess(corpus, folder / "bin", *both(corpus), *sets)
    return folder


SENTENCE = "Sentence 4 (counted from 0) has 61 tokens on its longer side"


@TASKS
def test_a_sentence_longer_than_a_batch_of_the_validation(task, long, tmp_path):
    arguments = train_arguments(long, tmp_path, *ONE, *task, "--max-tokens", "40")
    sentence = refused(run("train", *arguments))
    assert SENTENCE in sentence and "at most 40 (--max-tokens" in sentence
    assert "give at least 61" in sentence
    fairseq("train", *arguments, "--max-tokens-valid", "61")


@TASKS
@pytest.mark.parametrize("command", ["generate", "interactive", "validate"])
def test_a_sentence_longer_than_a_batch(command, task, long, trained):
    options = ("--path", trained / "checkpoint_last.pt", "--cpu", "--max-tokens", "40")
    if command == "interactive":
        options += ("--input", long / "long.de", "--buffer-size", "30", *task[:2])
    elif task or command == "validate":
        options += task[:2] or ("--task", "translation")
    sentence = refused(run(command, long / "bin", "--user-dir", PLUGIN, *options))
    assert SENTENCE in sentence


@pytest.fixture(scope="module")
def only_source(corpus, tmp_path_factory):
    """A test and a validation set without translations."""
    folder = tmp_path_factory.mktemp("only") / "bin"
    text = folder.parent / "text"
    shutil.copy(corpus / "test.de", f"{text}.de")
    preprocess(corpus, folder, "--only-source", "--testpref", text, "--validpref", text)
    shutil.copy(corpus / "bin" / "dict.en.txt", folder)
    return folder


@TASKS
@pytest.mark.parametrize("option", [("--score-reference",), ("--prefix-size", "1")])
def test_data_without_translations(option, task, only_source, trained):
    arguments = (
        *(only_source, "--user-dir", PLUGIN, "--path", trained / "checkpoint_last.pt", "--cpu"),
        *("--source-lang", "de", "--target-lang", "en", *task[:2]),
    )
    sentence = refused(run("generate", *arguments, *option))
    assert f"{option[0]} needs translations, but the data set test has none" in sentence
    assert len(hypotheses(fairseq("generate", *arguments))) == 24


def test_validation_without_translations(only_source, corpus, trained, tmp_path):
    done = run(
        *("validate", only_source, "--user-dir", PLUGIN, *TASK, "--cpu"),
        *("--path", trained / "checkpoint_last.pt", "--source-lang", "de", "--target-lang", "en"),
        *("--max-tokens", "400"),
    )
    assert "The validation set has no translations" in refused(done)
    data = tmp_path / "corpus" / "bin"
    shutil.copytree(corpus / "bin", data)
    for file in data.glob("valid.de-en.en.*"):
        file.unlink()
    done = run("train", *train_arguments(data.parent, tmp_path / "new", *ONE))
    assert "valid has no translations" in refused(done)


@pytest.fixture(scope="module")
def several(corpus, tmp_path_factory):
    """The training set twice, as ``train`` and ``train1``."""
    folder = tmp_path_factory.mktemp("several")
    shutil.copytree(corpus / "bin", folder / "bin")
    for file in (folder / "bin").glob("train.de-en.*"):
        shutil.copy(file, folder / "bin" / file.name.replace("train.", "train1."))
    return folder


@TASKS
@pytest.mark.parametrize(("options", "sentences"), [((), 480), (("--upsample-primary", "3"), 960)])
def test_several_training_sets(options, sentences, task, several, tmp_path):
    """By default, each is used once."""
    size = ("--batch-size", "10000", "--max-tokens", "100000")
    log = train(several, tmp_path, *ONE, *size, *task, *options, "--log-interval", "1")
    assert re.search(rf"bsz[ =]{sentences}\b", log), log[-2000:]


def test_a_negative_number_of_copies(several, tmp_path):
    arguments = train_arguments(several, tmp_path, *ONE, "--upsample-primary", "-2")
    assert "--upsample-primary is -2, but must be at least 0" in refused(run("train", *arguments))


def test_a_training_set_that_would_be_ignored(several, tmp_path):
    """fairseq counts from 1, and stops at the first number that is missing."""
    data = tmp_path / "corpus" / "bin"
    shutil.copytree(several / "bin", data)
    for file in data.glob("train1.de-en.*"):
        file.rename(data / file.name.replace("train1", "train2"))
    log = train(data.parent, tmp_path / "new", *ONE)
    assert "train2 is not used: there is no train1" in log


@pytest.mark.parametrize("impl", ["lazy", "cached", "huffman", "raw"])
def test_the_format_of_binarized_data(impl, corpus, tmp_path):
    arguments = train_arguments(corpus, tmp_path, *ONE, "--dataset-impl", impl)
    sentence = refused(run("train", *arguments))
    if impl == "raw":
        assert "--dataset-impl raw needs the text" in sentence and "omit the option" in sentence
    else:
        assert f"written with --dataset-impl mmap, not {impl}: omit the option" in sentence


def test_formats_that_are_asked_for(corpus, tmp_path):
    """Data of the older format, and text, work with the right option, and without one."""
    names = [f"--{name}pref={corpus / name}" for name in ("train", "valid")]
    old = tmp_path / "old"
    preprocess(corpus, old / "bin", *both(corpus), *names, "--dataset-impl", "lazy")
    train(corpus, tmp_path / "mmap", "--max-epoch", "2")
    for options in ((), ("--dataset-impl", "lazy"), ("--dataset-impl", "cached")):
        # Processes that share an open file would read what others look for.
        workers = ("--num-workers", "3", "--max-epoch", "2")
        train(old, tmp_path / "".join(("old", *options)), *workers, *options)
        assert_same_weights(
            tmp_path / "mmap" / "checkpoint_last.pt",
            tmp_path / "".join(("old", *options)) / "checkpoint_last.pt",
            **dict(atol=0, rtol=0),
        )
    arguments = train_arguments(old, tmp_path / "saved", *ONE, "--dataset-impl", "mmap")
    sentence = refused(run("train", *arguments))
    assert "written with --dataset-impl cached, not mmap" in sentence

    raw = tmp_path / "raw" / "bin"
    raw.mkdir(parents=True)
    for language in ("de", "en"):
        shutil.copy(corpus / "bin" / f"dict.{language}.txt", raw)
        for name in ("train", "valid"):
            shutil.copy(corpus / f"{name}.{language}", raw / f"{name}.de-en.{language}")
    train(raw.parent, tmp_path / "saved", *ONE, "--dataset-impl", "raw")
    arguments = train_arguments(raw.parent, tmp_path / "saved", *ONE, "--dataset-impl", "mmap")
    assert "is text, not binarized data: add --dataset-impl" in refused(run("train", *arguments))


PRECISIONS = {
    "--fp16": "--fp16 trains only on GPUs",
    "--memory-efficient-fp16": "--memory-efficient-fp16 trains only on GPUs",
    "--amp": "--amp trains only on GPUs",
    "--fp16 --amp": "--fp16 and --amp cannot be combined",
    "--fp16 --bf16": "argument --fp16: not allowed with --bf16",
}


@pytest.mark.parametrize("options", PRECISIONS)
def test_precisions_of_a_gpu(options, corpus, tmp_path):
    """They are refused before the model is built."""
    done = run("train", *train_arguments(corpus, tmp_path, *ONE, *options.split(), options=TINY))
    assert done.returncode != 0 and PRECISIONS[options] in done.stderr
    assert "Traceback" not in done.stderr and "num. shared model params" not in done.stdout


@pytest.mark.parametrize("option", ["--bf16", "--memory-efficient-bf16"])
def test_precisions_of_a_cpu(option, corpus, tmp_path):
    train(corpus, tmp_path, *ONE, option)


@pytest.mark.parametrize("overrides", ["{bad", "5", "{1: 2}"])
@pytest.mark.parametrize("command", ["generate", "interactive", "validate"])
def test_options_that_are_dictionaries(command, overrides, corpus, trained):
    done = run(
        *(command, corpus / "bin", "--user-dir", PLUGIN, "--cpu"),
        *("--path", trained / "checkpoint_last.pt", "--model-overrides", overrides),
        text="eins\n",
    )
    assert f"--model-overrides is {overrides}, but must be a dictionary" in refused(done)
