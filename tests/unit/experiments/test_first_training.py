"""The recipes of ``convs2s train`` and its commands, which fairseq's parser must accept."""

import json
from argparse import Namespace
from itertools import product

import pytest

from convs2s.common.errors import UserError
from convs2s.experiments.records import write_json
from convs2s.experiments.training.recipes import OTHERS, RECIPES, find_recipe, model_options
from convs2s.experiments.training.request import (
    Data,
    Request,
    in_lines,
    read_data,
    validation_options,
)
from convs2s.experiments.training.run import RECORD, earlier_seconds
from convs2s.text.binarize import write_numbers
from convs2s.text.symbols import escape, escape_joints
from convs2s.text.tokenizers import SPACE_MARK, make_tokenizer, of_sides


def request(tmp_path, pairs=29_000, joined=True, tokenizer="moses", subwords="subword_nmt", **more):
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    for language, length in (("de", 20), ("en", 50)):
        write_numbers(folder / f"train.de-en.{language}", [[5] * length] * 100, 10)
    data = Data(folder, ("de", "en"), pairs, joined, tokenizer, subwords)
    return Request(data, tmp_path / "checkpoints", **more)


@pytest.mark.parametrize("family", RECIPES)
@pytest.mark.parametrize("pairs", [100, 150_000, 5_000_000])
def test_every_recipe_is_one_that_fairseq_accepts(tmp_path, family, pairs):
    options = pytest.importorskip("fairseq.options")
    arch = RECIPES[family][0].arch
    command = list(map(str, request(tmp_path, pairs, arch=arch).command()))
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, command[1:])
    recipe = find_recipe(arch, pairs)[1]
    assert (args.arch, args.dropout) == (arch, recipe.options["dropout"])
    assert args.max_epoch == recipe.epochs_for(pairs)
    assert args.share_all_embeddings


def test_the_learning_rate_shrinks_with_the_width():
    recipe = find_recipe("adl_transformer_small", 29_000)[1]
    rates = [
        model_options(recipe, "adl", name)["lr"]
        for name in ("adl_transformer_small", "adl_transformer_wmt", "adl_transformer_iwslt")
    ]
    assert rates == [0.006, 0.003, 0.0015]
    convs2s = find_recipe("convs2s", 29_000)[1]
    assert model_options(convs2s, "convs2s", "convs2s_iwslt_de_en_deep")["lr"] == 0.006
    assert model_options(convs2s, "convs2s", "convs2s_wmt_en_de")["lr"] == 0.003


def test_little_text_has_more_epochs_within_limits():
    recipe = find_recipe(None, 29_000)[1]
    assert [recipe.epochs_for(pairs) for pairs in (0, 100, 29_000, 99_000)] == [100, 100, 22, 12]


def test_models_of_others_get_options_of_fairseq(tmp_path):
    assert find_recipe("transformer", 29_000) == (None, OTHERS)
    options = request(tmp_path, arch="fconv_iwslt_de_en").train_options()
    assert options["criterion"] == "label_smoothed_cross_entropy"
    assert not {"share-all-embeddings", "autocast-dtype"} & options.keys()


def test_definitions_get_the_sizes_of_the_recipe(tmp_path):
    options = request(tmp_path, adl=("rnn", "rnn -> mlp_att")).train_options()
    assert options["arch"] == "adl" and options["model-dim"] == 128
    assert (options["encoder-adl"], options["decoder-adl"]) == ("rnn", "rnn -> mlp_att")
    large = request(tmp_path, 200_000, adl=("rnn", "rnn -> mlp_att")).train_options()
    assert large["model-dim"] == 512


def test_characters_are_not_smoothed_and_scored_as_text(tmp_path):
    options = request(tmp_path, tokenizer="characters", subwords="none").train_options()
    assert options["label-smoothing"] == 0.0
    assert "eval-bleu-remove-bpe" not in options


TEXTS = [
    'Um 12:30 Uhr, 10 % von 3.5 ("so"): a@@ \\</s> und well-known <unk> l\'été 한국어 .',
    "Die zwei Hunde rennen & bellen.",
]


# Each character of a word is a sub-word.
SPLIT = {
    "subword_nmt": lambda words: " ".join(map("@@ ".join, escape_joints(words).split())),
    "sentencepiece": lambda words: " ".join(f"{SPACE_MARK}{words.replace(' ', SPACE_MARK)}"),
    "none": str,
}


@pytest.mark.parametrize(
    ("tokenizer", "subwords"),
    [
        *product(("moses", "none", "none/moses_scripts"), SPLIT),
        *product(("characters", "letters", "moses/letters"), ["none"]),
    ],
)
def test_validation_scores_the_text_of_the_preparation(tmp_path, tokenizer, subwords):
    encoders = pytest.importorskip("fairseq.data.encoders")
    post_process = pytest.importorskip("fairseq.data.data_utils").post_process
    pytest.importorskip("convs2s_plugin")
    if "moses" in tokenizer:
        pytest.importorskip("sacremoses")
    how = {"marks_spaces": True, "is_prepared": True}
    data = Data(tmp_path, ("de", "en"), 5, False, tokenizer, subwords, **how)
    options = validation_options(data)
    detokenizer = encoders.build_tokenizer(
        Namespace(
            tokenizer=options["eval-bleu-detok"], **json.loads(options["eval-bleu-detok-args"])
        )
    )
    target = make_tokenizer(of_sides(tokenizer)[1], "en", True)
    for line in TEXTS:
        tokens = target.tokenize(line)
        joined = post_process(SPLIT[subwords](escape(tokens)), options.get("eval-bleu-remove-bpe"))
        text = detokenizer.decode(joined)
        assert text == target.detokenize(tokens)
        assert text == line or tokenizer.endswith("scripts")


def test_pervasive_attention_ends_with_the_statistics_of_generation(tmp_path):
    wanted = request(tmp_path, arch="pervasive_iwslt_de_en", epochs=10)
    # 5,000 tokens in batches of 1,000, of which 850 are filled, are 59 updates in 10 epochs.
    assert wanted.length() == {"max-epoch": 10, "statistics-updates": 47}
    for options, updates in (
        (("--max-tokens", "500"), 94),
        (("--max-tokens", "0"), 47),
        (("--max-tokens", "many"), 47),
        (("--update-freq", "2"), 24),
        (("--update-freq=2", "--max-tokens=500"), 47),
        (("--max-update", "20"), 16),
        # 290 batches of 29,000 pairs
        (("--batch-size", "100"), 2320),
        (("--max-sentences", "100"), 2320),
        (("--max-update", "200"), 47),
    ):
        other = request(tmp_path, arch="pervasive_iwslt_de_en", epochs=10, options=options)
        assert other.length()["statistics-updates"] == updates
    # A longer training can continue it.
    assert "statistics-updates" not in wanted.settings
    paper = request(tmp_path, 150_000, arch="pervasive_iwslt_de_en", epochs=10)
    assert paper.length() == {"max-epoch": 10}


def test_minutes_end_a_training(tmp_path):
    assert request(tmp_path, minutes=30).length() == {"stop-time-hours": 0.5}
    assert request(tmp_path, minutes=0.002).length() == {"stop-time-hours": 0.0001}


def test_given_options_come_last_and_are_settings(tmp_path):
    wanted = request(tmp_path, options=("--lr", "0.1", "--adam-betas=(0.9, 0.99)", "--fp16"))
    assert wanted.command()[-4:] == ["--lr", "0.1", "--adam-betas=(0.9, 0.99)", "--fp16"]
    assert wanted.settings["lr"] == "0.1" and wanted.settings["fp16"] == "True"
    assert wanted.settings["adam-betas"] == "(0.9, 0.99)"
    own = request(tmp_path, options=("--user-dir", "mine")).command()
    assert own.count("--user-dir") == 1


def test_a_continued_run_may_print_another_bleu(tmp_path, monkeypatch):
    # This needs fairseq.
    monkeypatch.setattr("convs2s.experiments.training.run.check_command", lambda request: None)
    wanted = request(tmp_path)
    wanted.checkpoints.mkdir()
    (wanted.checkpoints / "checkpoint_last.pt").write_bytes(b"")
    options = {**wanted.settings, "eval-bleu-detok": "moses", "eval-bleu-print-samples": "True"}
    write_json(wanted.checkpoints / RECORD, {"options": options, "seconds": 3})
    assert earlier_seconds(wanted) == 3
    write_json(wanted.checkpoints / RECORD, {"options": {**options, "lr": "7"}, "seconds": 3})
    with pytest.raises(UserError, match="with --lr 7, but now it is"):
        earlier_seconds(wanted)


def test_a_printed_command_is_one_for_a_shell(tmp_path):
    lines = in_lines(request(tmp_path).command()).split(" \\\n")
    assert ' --user-dir "$(convs2s path)"' in "".join(lines[:2])
    assert "--adam-betas '(0.9, 0.98)'" in " ".join(lines)
    assert all(line.startswith("  --") for line in lines[1:])


def test_data_of_a_preparation_and_of_fairseq(tmp_path):
    folder = tmp_path / "prepared"
    binarized = folder / "data-bin"
    binarized.mkdir(parents=True)
    with pytest.raises(UserError, match="no data to train on"):
        read_data(folder)
    content = {
        "format": 1,
        "languages": {"source": "de", "target": "en"},
        "pairs": {"train": 5},
        "read": {"train": 5},
        "left_out": {},
        "subwords": {"method": "none", "joint": False},
        "tokenizer": "characters",
        "dictionaries": dict.fromkeys(("source", "target"), {"file": "x", "sha256": "x"}),
        "longest": {"train": 9, "valid": 2000, "test": 4},
        "marks_spaces": True,
    }
    (folder / "preparation.yaml").write_text(json.dumps(content))
    wanted = Data(binarized, ("de", "en"), 5, False, "characters", "none", 2000, True, True)
    assert read_data(folder) == read_data(binarized) == wanted
    assert "eval-bleu-detok" in validation_options(wanted)
    # The words of others stay as they are.
    assert "eval-bleu-detok" not in validation_options(wanted._replace(is_prepared=False))
    options = Request(wanted, folder / "checkpoints").train_options()
    assert options["skip-invalid-size-inputs-valid-test"]


def test_broken_data_are_refused(tmp_path):
    index = tmp_path / "train.de-en.de.idx"
    index.write_bytes(b"x" * 40)
    with pytest.raises(UserError, match="not complete.*dict.de.txt"):
        read_data(tmp_path)
    for language in ("de", "en"):
        (tmp_path / f"dict.{language}.txt").write_text("a 1\n")
    with pytest.raises(UserError, match="not an index"):
        read_data(tmp_path)
    index.write_bytes(b"x")
    with pytest.raises(UserError, match="not complete"):
        read_data(tmp_path)
