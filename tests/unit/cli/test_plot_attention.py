"""``convs2s plot-attention`` for models of several families, and its errors."""

import argparse

import pytest
import torch
from fairseq import options, tasks
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from convs2s_plugin.cli import plot_attention
from convs2s_plugin.errors import UserError

pytest.importorskip("matplotlib")

WORDS = "ein zwei drei vier fünf one two three four five".split()
FAMILIES = {
    "convs2s": ["--encoder-layers", "[(8, 3)]", "--decoder-layers", "[(8, 3)]"]
    + ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8", "--decoder-out-embed-dim", "8"],
    "pervasive": ["--encoder-embed-dim", "8", "--decoder-embed-dim", "8", "--num-layers", "2"]
    + ["--growth-rate", "4", "--kernel-size", "3"],
    "transformer": ["--encoder-embed-dim", "8", "--encoder-ffn-embed-dim", "8"]
    + ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-attention-heads", "2"]
    + ["--decoder-attention-heads", "2", "--decoder-ffn-embed-dim", "8"],
}


def write_dictionaries(folder, words=WORDS):
    folder.mkdir()
    dictionary = Dictionary()
    for word in words:
        dictionary.add_symbol(word)
    for lang in ("de", "en"):
        dictionary.save(str(folder / f"dict.{lang}.txt"))


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """A checkpoint of random weights and its data folder."""
    folder = tmp_path_factory.mktemp(request.param)
    write_dictionaries(folder / "data")
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(
        parser,
        [str(folder / "data"), "--arch", request.param, *FAMILIES[request.param]]
        + ["--source-lang", "de", "--target-lang", "en"]
        + ["--max-source-positions", "64", "--max-target-positions", "64"],
    )
    config = convert_namespace_to_omegaconf(args)
    torch.manual_seed(1)
    model = tasks.setup_task(config.task).build_model(config.model)
    checkpoint = folder / "model.pt"
    state = {
        "cfg": OmegaConf.to_container(config),
        "args": None,
        "model": model.state_dict(),
        "optimizer_history": [{"num_updates": 0, "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, checkpoint)
    return ["--path", str(checkpoint), "--data", str(folder / "data")]


def call(arguments):
    parser = argparse.ArgumentParser()
    plot_attention.add_arguments(parser)
    return plot_attention.run(parser.parse_args([str(argument) for argument in arguments]))


@pytest.mark.parametrize("sentences", (["ein zwei"], ["ein zwei", "drei vier unbekannt", "fünf"]))
def test_plot_of_translations(trained, sentences, tmp_path, capsys):
    picture = tmp_path / "attention.png"
    assert call([*trained, "--output", picture, *sentences]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(sentences) + 1
    assert printed[-1] == str(picture)


def test_plot_of_a_given_target(trained, tmp_path, capsys):
    picture = tmp_path / "attention.svg"
    call([*trained, "--output", picture, "ein zwei drei", "--target", "one two three"])
    assert capsys.readouterr().out.splitlines()[0] == "one two three"
    assert "three" in picture.read_text(encoding="utf-8")


def test_weights_of_each_target_token_sum_to_one(trained):
    model, task = plot_attention._load_model(trained[1], trained[3])
    attention = plot_attention.compute_attention(model, task, "ein zwei drei", "one two")
    assert attention.source == ["ein", "zwei", "drei", "</s>"]
    assert attention.target == ["one", "two", "</s>"]
    assert attention.weights.shape == (3, 4)
    torch.testing.assert_close(attention.weights.sum(dim=1), torch.ones(3))


@torch.no_grad()
def test_attention_is_that_of_the_target_tokens(trained):
    """Pervasive attention has alignments that depend on the target token."""
    model, task = plot_attention._load_model(trained[1], trained[3])
    if not getattr(model.decoder, "aligns_tokens", False):
        pytest.skip("attention does not depend on the tokens")
    source = plot_attention._encode(task.source_dictionary, "ein zwei drei").unsqueeze(0)
    target = plot_attention._encode(task.target_dictionary, "one two").unsqueeze(0)
    previous = target.roll(1, dims=1)
    attention = plot_attention.compute_attention(model, task, "ein zwei drei", "one two")
    _, extra = model(source, None, previous, need_attn=True, target_tokens=target)
    torch.testing.assert_close(attention.weights, extra["attn"][0][0])
    _, extra = model(source, None, previous, need_attn=True)
    assert not torch.allclose(attention.weights, extra["attn"][0][0])


@pytest.mark.parametrize(
    "arguments, sentence",
    (
        (["ein", "--output", "a.png", "--beam", "0"], "at least 1"),
        (["ein", "--output", "a.doc"], r"must end in \.png"),
        (["ein", "--output", "a.png", "--target", "one", "--target", "two"], "2 --target"),
        (["ein", " ", "--output", "a.png"], "Sentence 2 is empty"),
        (["ein " * 5_000, "--output", "a.png"], "5001 tokens"),
        (["ein", "--output", "a.png", "--target", "one " * 100], "101 tokens"),
        (["ein", "--output", "a.png", "--bpe-codes", "missing"], "BPE codes missing cannot"),
        (["ein", "--output", "a.png", "--path", "missing"], "no checkpoint missing"),
        (["ein", "--output", "a.png", "--data", "missing"], "no folder missing"),
    ),
)
def test_errors(trained, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=sentence):
        call([*trained, *arguments])


def test_other_dictionaries(trained, tmp_path):
    write_dictionaries(tmp_path / "other", WORDS[:4])
    with pytest.raises(UserError, match="dictionar"):
        call([*trained, "--data", tmp_path / "other", "--output", tmp_path / "a.png", "ein"])
