"""``convs2s experiment`` with fairseq's programs on the tiny corpus.

tests/unit/experiments has the rest, with small programs in their place.
"""

import gzip
import json
import re
import shutil
import subprocess
import time
from array import array

import pytest

from convs2s.text.vocabulary import Vocabulary
from tests.support.commands import server

EXPERIMENT = """
title: Numbers
data: {source: de, target: en, text: text, bpe_merges: 20, joined_dictionary: true}
train:
  task: convs2s_translation
  criterion: convs2s_cross_entropy
  optimizer: adam
  lr: 0.005
  lr-scheduler: polynomial_decay
  total-num-update: "{updates}"
  max-tokens: 200
  share-all-embeddings: true
  num-workers: 0
generate: {beam: 2, max-tokens: 400, num-workers: 0}
average: 2
baseline: fconv
systems:
  convs2s:
    title: ConvS2S
    updates: 100
    train:
      arch: convs2s_iwslt_de_en
      encoder-embed-dim: 32
      decoder-embed-dim: 32
      decoder-out-embed-dim: 32
      encoder-layers: "[(32, 3)] * 2"
      decoder-layers: "[(32, 3)] * 2"
  fconv:
    updates: 10
    average: 1
    train:
      task: translation
      criterion: cross_entropy
      arch: fconv_iwslt_de_en
      encoder-embed-dim: 16
      decoder-embed-dim: 16
      decoder-out-embed-dim: 16
      encoder-layers: "[(16, 3)]"
      decoder-layers: "[(16, 3)]"
      share-all-embeddings: null
    trials: {lr: [1.0e+38, 0.005]}
  "ConvS2S, unnormalized":
    runs_of: convs2s
    generate: {unnormalized: true}
"""


@pytest.fixture
def folder(corpus, tmp_path):
    """A folder with the text and a YAML file."""
    text = tmp_path / "text"
    text.mkdir()
    for split in ("train", "valid", "test"):
        for language in ("de", "en"):
            content = (corpus / f"{split}.{language}").read_bytes()
            (text / f"{split}.tok.{language}.gz").write_bytes(gzip.compress(content))
    (tmp_path / "numbers.yaml").write_text(EXPERIMENT, encoding="utf-8")
    return tmp_path


def command(*more):
    """The command, in a fork of the server."""
    return [server().programs / "convs2s", "experiment", "numbers.yaml", "--jobs", "2", *more]


def start(folder, *more):
    """Run the command to its end."""
    return subprocess.run(
        command(*more), cwd=folder, capture_output=True, text=True, encoding="utf-8"
    )


def test_a_stopped_experiment_goes_on(folder):
    out = folder / "numbers_out"
    run = out / "runs" / "convs2s.1"
    with subprocess.Popen(command(), cwd=folder, stdout=subprocess.DEVNULL) as stopped:
        while not (run / "checkpoints" / "checkpoint_last.pt").exists():
            assert stopped.poll() is None
            time.sleep(0.05)
        stopped.terminate()
    assert not (run / "result.json").exists()

    # It waits for what is left of the first command.
    done = start(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    log = (run / "train.log").read_text()
    assert "Loaded checkpoint" in log and "num_updates: 100" in log
    assert sorted(path.name for path in run.glob("*.pt")) == ["average.pt"]
    # The model of fairseq's own needs it.
    commands = (out / "commands.log").read_text().splitlines()
    assert all("CONVS2S_COMPAT=all" in line for line in commands if "fairseq-" in line)
    assert not (run / "checkpoints").exists()

    table = [line for line in done.stdout.splitlines() if line.startswith("| ")]
    assert [line.split("|")[1].strip() for line in table[:5] if "---" not in line] == [
        "System",
        "ConvS2S",
        "fconv",
        "ConvS2S, unnormalized",
    ]
    results = json.loads((out / "results.json").read_text())["results"]
    # The gradients of the first trial of fconv are not finite.
    assert "| diverged |" in re.sub(" +", " ", done.stdout)
    assert [result["diverged"] for result in results if "diverged" in result] == [True]
    (chosen,) = [r["trial_options"] for r in results if r["system"] == "fconv" and r["trial"] == 2]
    assert chosen == {"lr": 0.005}
    for result in results:
        if result["trial"] is not None:
            continue
        assert result["parameters"] > result["parameters_without_embeddings"] > 0
        assert result["train_minutes"] > 0 and result["cpu_minutes"] > 0
        assert result["tokens_per_second"] > 0 and result["sentences_per_second"] > 0
        assert result["valid_loss"] > 0 and list(result["splits"]) == ["valid", "test"]
        assert all(scores["bleu"] >= 0 for scores in result["splits"].values())
    folders = [run, out / "runs" / "fconv.1", out / "runs" / "ConvS2S_unnormalized.1"]
    for split in ("valid", "test"):
        for path in (*(folder / f"{split}.hyp" for folder in folders), out / "references" / split):
            text = path.read_text(encoding="utf-8")
            assert text.count("\n") == 24 and "@@" not in text


ADL = """
  mine:
    updates: 10
    train: {arch: adl, encoder-adl: ADL, decoder-adl: "mh_src_att"}
"""
# A change of the file, and the error that follows, as a regular expression.
FAULTS = [
    (
        "arch: convs2s_iwslt_de_en",
        "arch: convs2s_iwslt_de_em",
        r"systems\.convs2s\.train\.arch: there is no 'convs2s_iwslt_de_em' "
        r"\(.*'convs2s_iwslt_de_en'.*\)",
    ),
    (
        "lr-scheduler:",
        "max-tokenz: 9\n  lr-scheduler:",
        r"train\.max-tokenz: fairseq-train has no such option \(.*'max-tokens'.*\) "
        r"\(in fconv, mine\)",
    ),
    (
        "optimizer:",
        "learning-rate: 1\n  optimizer:",
        r"train\.learning-rate: fairseq-train has no such option \(.*'lr'.*\) \(in fconv, mine\)",
    ),
    ("lr: [1.0e+38, 0.005]", "lr: [x, 0.005]", r"systems\.fconv\.trials\.lr: not a number: 'x'"),
    (
        "optimizer:",
        "num-update: 1\n  optimizer:",
        r"train\.num-update: fairseq-train has no such option( \(.*'(?!max-update).*'.*\))? "
        r"\(in fconv, mine\)",
    ),
    (
        "generate: {beam: 2,",
        "generate: {beem: 2,",
        r"generate\.beem: fairseq-generate has no such option \(.*'beam'.*\) "
        r"\(in convs2s, mine, fconv, ConvS2S, unnormalized\)",
    ),
    (
        "{unnormalized: true}",
        "{unnormalized: 1}",
        r"systems\.ConvS2S, unnormalized\.generate\.unnormalized: this is a flag, which must be "
        r"true or false, not 1",
    ),
    ("ADL", '"cnnn(glu)"', r"systems\.mine\.train\.encoder-adl: --encoder-adl, line 1, .*'cnn'.*"),
]


@pytest.fixture
def wrong(folder):
    """The folder with a file that has all of FAULTS."""
    text = EXPERIMENT + ADL.removeprefix("\n")
    for old, new, _ in FAULTS:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    return folder


@pytest.mark.parametrize("more", [["--dry-run"], []])
def test_all_wrong_options_are_refused_before_anything_starts(more, wrong):
    done = start(wrong, *more)
    assert done.returncode == 2 and not done.stdout, done.stdout + done.stderr
    first, *lines = done.stderr.splitlines()
    assert first == "convs2s experiment: error: numbers.yaml: wrong options:"
    for _, _, fault in FAULTS:
        assert any(re.fullmatch(f"  {fault}", line) for line in lines), (fault, done.stderr)
    assert not (wrong / "numbers_out" / "data").exists()


def test_only_the_chosen_systems_are_checked(folder):
    text = EXPERIMENT.replace("arch: fconv_iwslt_de_en", "arch: fconf")
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    done = start(folder, "--dry-run", "--systems", "convs2s")
    assert done.returncode == 0 and "fairseq-train" in done.stdout, done.stderr
    assert start(folder, "--dry-run").returncode == 2


def test_models_are_built_before_the_first_run(folder):
    """Embeddings are shared, but the data will have two dictionaries."""
    text = EXPERIMENT.replace("joined_dictionary: true", "joined_dictionary: false")
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    done = start(folder)
    assert done.returncode == 2 and not (folder / "numbers_out/data").exists()
    assert "  train.share-all-embeddings: --share-all-embeddings needs one" in done.stderr
    text = text.replace("  max-tokens: 200\n", "").replace("  share-all-embeddings: true\n", "")
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    done = start(folder, "--dry-run", "--smoke")
    assert "  systems.fconv.train: there is neither --max-tokens nor --batch-size" in done.stderr
    text = EXPERIMENT.replace('  total-num-update: "{updates}"\n', "")
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    done = start(folder, "--dry-run")
    assert "  systems.fconv.train: there is no --total-num-update, which lr_sch" in done.stderr
    (folder / "numbers.yaml").write_text(EXPERIMENT.replace("  optimizer: adam\n", ""), "utf-8")
    assert "  systems.fconv.train: there is no --optimizer" in start(folder, "--dry-run").stderr


def test_data_of_prepare(folder):
    """The scores are those of text: no tokens, no marks of sub-words."""
    for name in ("train", "valid", "test"):
        for language in ("de", "en"):
            lines = gzip.decompress((folder / f"text/{name}.tok.{language}.gz").read_bytes())
            (folder / f"{name}.{language}").write_bytes(lines.replace(b"\n", b".\n"))
    texts = [x for n in ("train", "valid", "test") for x in (f"--{n}", f"{n}.de", f"{n}.en")]
    prepare = [server().programs / "convs2s", "prepare", "--out", "made", *texts]
    prepare += ["--bpe", "sentencepiece", "--bpe-size", "60", "--workers", "1"]
    subprocess.run(prepare, cwd=folder, check=True, capture_output=True)
    data = "{source: de, target: en, text: text, bpe_merges: 20, joined_dictionary: true}"
    assert data in EXPERIMENT
    text = EXPERIMENT.replace(data, "{prepared: made}")
    (folder / "numbers.yaml").write_text(text, encoding="utf-8")
    done = start(folder, "--systems", "convs2s", "--limit-updates", "60")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sacreBLEU and chrF on the plain text." in done.stdout
    out = folder / "numbers_out"
    references = (out / "references/test").read_text(encoding="utf-8")
    assert references == (folder / "test.en").read_text(encoding="utf-8")
    hypotheses = (out / "runs/convs2s.1/test.hyp").read_text(encoding="utf-8")
    assert "\N{LOWER ONE EIGHTH BLOCK}" not in hypotheses and "-th" in hypotheses


SMALL = """{
      arch: convs2s_iwslt_de_en, encoder-embed-dim: 16, decoder-embed-dim: 16,
      decoder-out-embed-dim: 16, encoder-layers: "[(16, 3)]", decoder-layers: "[(16, 3)]"}"""
TRANSLATED = f"""
  teacher: {{updates: 30, train: &small {SMALL}, seeds: [1, 2]}}
  both: {{ensemble: {{teacher: [1, 2]}}, generate: {{beam: 1}}, searches: {{lenpen: [1, 2]}}}}
  backward: {{updates: 20, train: *small, reverse: true}}
  distilled:
    updates: 10
    train: *small
    train_on: {{text: false, translations: {{both: 1}}}}
  more:
    updates: 10
    train: *small
    train_on: {{translations: {{teacher: [1, 2], backward: 1}}}}
"""


def test_systems_train_on_the_translations_of_others(folder):
    text = EXPERIMENT.partition("systems:\n")[0].replace("average: 2\nbaseline: fconv\n", "")
    # A new model ends no sentence.
    text = text.replace("{beam: 2,", "{beam: 2, max-len-b: 10,")
    (folder / "numbers.yaml").write_text(f"{text}systems:{TRANSLATED}", encoding="utf-8")
    planned = start(folder, "--dry-run")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert planned.stdout.count("--gen-subset train") == 4
    assert "# makes numbers_out/runs/more.1/data-bin of teacher.1, teacher.2, backward.1" in (
        planned.stdout
    )
    done = start(folder, "--keep-checkpoints")
    assert done.returncode == 0, done.stdout + done.stderr
    runs = folder / "numbers_out" / "runs"
    pairs = re.compile(r"\| (?:\S+ )?(train\d?) de-en (\d+) examples")
    read = {name: (runs / f"{name}.1/train.log").read_text() for name in ("distilled", "more")}
    count = len(gzip.decompress((folder / "text/train.tok.de.gz").read_bytes()).splitlines())
    assert pairs.findall(read["distilled"]) == [("train", f"{count}")]
    assert pairs.findall(read["more"]) == [
        (name, f"{count}") for name in ("train", "train1", "train2", "train3")
    ]
    # What translates to the source language is trained, and translates the targets.
    (backward,) = {
        line.partition("\t")[2]
        for line in (runs / "backward.1/train.out").read_text().splitlines()
        if line.startswith("S-0\t")
    }
    tokens = (folder / "numbers_out/data/tokens/train.en").read_text(encoding="utf-8").splitlines()
    assert backward == tokens[0]
    table = [line.split("|")[1].strip() for line in done.stdout.splitlines() if "|" in line]
    assert "both" in table and "more" in table and "backward" not in table
    assert start(folder).returncode == 0
    commands = (folder / "numbers_out/commands.log").read_text()
    assert commands.count("--gen-subset train ") == 4


def sentences(path, data):
    """The sentences of binarized data."""
    vocabulary = Vocabulary.load(data / f"data-bin/dict.{path.suffix[1:]}.txt")
    numbers = array("H", path.with_name(f"{path.name}.bin").read_bytes())
    text = " ".join(vocabulary.symbols[number] for number in numbers)
    return [line.strip() for line in text.split("</s>")[:-1]]


def test_systems_train_on_back_translations_of_monolingual_text(folder):
    text = EXPERIMENT.partition("systems:\n")[0].replace("average: 2\nbaseline: fconv\n", "")
    text = text.replace("{beam: 2,", "{beam: 2, max-len-b: 10,")
    text = text.replace("text: text,", "text: text, monolingual: mono.en,")
    systems = f"""
  backward:
    updates: 20
    train: &small {SMALL}
    reverse: true
    seeds: [1, 2]
    generate: {{beam: 1}}
  augmented: {{updates: 10, train: *small, train_on: {{back_translations: {{backward: 2}}}}}}
  tagged:
    updates: 10
    train: *small
    train_on: {{text: false, back_translations: {{backward: [1, 2]}}, tag: true}}
"""
    (folder / "numbers.yaml").write_text(f"{text}systems:{systems}", encoding="utf-8")
    lines = gzip.decompress((folder / "text/train.tok.en.gz").read_bytes()).decode().splitlines()
    (folder / "mono.en").write_text("\n\n".join(reversed(lines[:50])) + "\n", encoding="utf-8")
    planned = start(folder, "--dry-run")
    assert planned.returncode == 0, planned.stdout + planned.stderr
    assert planned.stdout.count("convs2s translate ") == 2
    done = start(folder, "--keep-checkpoints")
    assert done.returncode == 0, done.stdout + done.stderr
    runs, data = folder / "numbers_out/runs", folder / "numbers_out/data"
    # The monolingual text has the sub-words of the training text, and no empty lines.
    tokens = (data / "monolingual.en").read_text(encoding="utf-8").splitlines()
    trained = (data / "tokens/train.en").read_text(encoding="utf-8").splitlines()
    assert tokens == trained[:50][::-1]
    pairs = re.compile(r"\| (?:\S+ )?(train\d?) de-en (\d+) examples")
    read = {name: (runs / f"{name}.1/train.log").read_text() for name in ("augmented", "tagged")}
    assert pairs.findall(read["augmented"]) == [("train", f"{len(lines)}"), ("train1", "50")]
    assert pairs.findall(read["tagged"]) == [("train", "50"), ("train1", "50")]
    translations = (runs / "backward.2/monolingual").read_text(encoding="utf-8").splitlines()
    assert len(translations) == 50
    for name, file, tag in (("augmented", "train1", ""), ("tagged", "train1", "<unk> ")):
        made = runs / f"{name}.1/data-bin"
        assert sentences(made / f"{file}.de-en.en", data) == tokens
        assert sentences(made / f"{file}.de-en.de", data) == [tag + line for line in translations]
    # A translation that was interrupted goes on, if it is needed.
    shutil.rmtree(runs / "tagged.1")
    (runs / "backward.2/monolingual").rename(runs / "backward.2/monolingual.partial")
    done = start(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len((runs / "backward.2/monolingual").read_text(encoding="utf-8").splitlines()) == 50


def test_several_workers_train_as_one(folder):
    """Two workers with half of the sentences each learn what one learns from all of them."""
    text = EXPERIMENT.partition("  fconv:\n")[0].replace("baseline: fconv\n", "")
    text = text.replace("updates: 100", "updates: 4")
    text = text.replace("optimizer: adam", "optimizer: sgd\n  dropout: 0")
    text = text.replace("max-tokens: 200", "batch-size: 120")
    two = text.partition("  convs2s:\n")[2].replace("title: ConvS2S", "title: Two\n    gpus: 2")
    one = "train:\n      update-freq: 2"
    text = text.replace("train:\n      arch", f"{one}\n      arch")
    (folder / "numbers.yaml").write_text(f"{text}  two:\n{two}", encoding="utf-8")
    done = start(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    log = (folder / "numbers_out/runs/two.1/train.log").read_text(encoding="utf-8")
    assert "training on 2 devices" in log
    results = json.loads((folder / "numbers_out" / "results.json").read_text())["results"]
    first, second = (result["valid_loss"] for result in results)
    assert first == pytest.approx(second, abs=2e-3)
    settings = json.loads((folder / "numbers_out/runs/two.1/settings.json").read_text())
    assert (settings["gpus"], settings["nodes"]) == (2, 1)
