"""``convs2s plot-attention`` for models of several families, and its errors."""

import argparse
import json
import subprocess

import pytest
import torch

from convs2s.cli import plot_attention
from convs2s.cli.plot_attention import load_translators
from convs2s.cli.plugin import load_model
from convs2s.common.errors import UserError
from convs2s.models.adl.language import registry
from convs2s.models.interface import Vocabularies
from convs2s.text.vocabulary import Vocabulary
from convs2s.translation.attention import attention_of_pair, best_translation
from tests import ROOT
from tests.support.commands import server
from tests.support.families import build

pytest.importorskip("matplotlib")

WORDS = "ein zwei drei vier fünf one two three four five".split()
FAMILIES = {
    "convs2s": dict(
        encoder_layers="[(8, 3)]",
        decoder_layers="[(8, 3)] * 2",
        encoder_embed_dim=8,
        decoder_embed_dim=8,
        decoder_out_embed_dim=8,
    ),
    "pervasive": dict(
        encoder_embed_dim=8, decoder_embed_dim=8, num_layers=2, growth_rate=4, kernel_size=3
    ),
    "adl_transformer_small": dict(model_dim=8, attention_heads=2),
    "transformer": dict(
        encoder_embed_dim=8,
        encoder_ffn_embed_dim=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        decoder_ffn_embed_dim=8,
    ),
}
# Models that fairseq loads.
OF_FAIRSEQ = ("transformer", "lstm", "fconv", "bag_of_words_small")
LENGTHS = dict(max_source_positions=64, max_target_positions=64)


def write_dictionaries(folder, words=WORDS):
    folder.mkdir(parents=True)
    vocabulary = Vocabulary()
    for word in words:
        vocabulary.add_symbol(word)
    for lang in ("de", "en"):
        vocabulary.save(folder / f"dict.{lang}.txt")


# What `--layers all` finds, by the name of the first model.
LAYERS = {
    "convs2s": ["source.mean", "source.1", "source.2"],
    "pervasive": ["source.max", "contributions.max"],
    "adl_transformer_small": [
        "source.mean",
        *(f"source.{i}" for i in range(1, 5)),
        *(f"{side}.{i}" for side in ("decoder", "encoder") for i in range(1, 5)),
    ],
    "transformer": ["source.mean"],
}


@pytest.fixture(scope="module", params=FAMILIES)
def trained(request, tmp_path_factory):
    """A checkpoint of random weights and its data folder."""
    return make_checkpoint(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def convs2s(tmp_path_factory):
    return make_checkpoint(tmp_path_factory.mktemp("convs2s"), "convs2s")


def make_checkpoint(folder, arch, options=None):
    """Options ``--path`` and ``--data`` of a model with random weights."""
    data, checkpoint = folder / "data", folder / "model.pt"
    write_dictionaries(data)
    options = FAMILIES[arch] if options is None else options
    if arch in OF_FAIRSEQ:
        content = checkpoint_of_fairseq(data, arch, options)
    else:
        size = len(Vocabulary()) + len(WORDS)
        network = build(arch, vocabularies=Vocabularies(size, size), **options, **LENGTHS)
        task = dict(_name="translation", source_lang="de", target_lang="en", **LENGTHS)
        cfg = {"model": {"_name": arch, **options}, "task": task}
        content = {"cfg": cfg, "model": network.state_dict()}
    torch.save(content, checkpoint)
    return ["--path", str(checkpoint), "--data", str(data)]


def checkpoint_of_fairseq(data, arch, given):
    """What fairseq would save of a model with random weights."""
    options = pytest.importorskip("fairseq.options")
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf
    from omegaconf import OmegaConf

    named = {**given, **LENGTHS}
    args = options.parse_args_and_arch(
        options.get_training_parser(),
        [str(data), "--arch", arch, "--source-lang", "de", "--target-lang", "en"]
        + [f"--{name.replace('_', '-')}={value}" for name, value in named.items()],
    )
    config = convert_namespace_to_omegaconf(args)
    torch.manual_seed(1)
    return {
        "cfg": OmegaConf.to_container(config),
        "args": None,
        "model": tasks.setup_task(config.task).build_model(config.model).state_dict(),
        "optimizer_history": [{"num_updates": 0, "lr_scheduler_state": {}}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }


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
    model = load_translators([trained[1]], data=trained[3], load=load_model)[0].ensemble
    attention = attention_of_pair(model, "ein zwei drei", "one two")
    assert attention.source == ["ein", "zwei", "drei", "</s>"]
    assert attention.target == ["one", "two", "</s>"]
    assert attention.maps[0][0].name == "source.mean"
    weights = attention.maps[0][0].weights
    assert weights.shape == (1, 1, 3, 4)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(1, 1, 3))


def test_data_of_all_layers(trained, tmp_path, capsys):
    output = tmp_path / "attention.json"
    assert call([*trained, "--output", output, "ein zwei", "drei $ <b> $"]) == 0
    read = json.loads(output.read_text(encoding="utf-8"))
    assert read["models"] == ["model.pt"]
    assert [one["source"] for one in read["sentences"]] == [
        ["ein", "zwei", "</s>"],
        ["drei", "$", "<b>", "$", "</s>"],
    ]
    printed = capsys.readouterr().out.splitlines()
    model = load_translators([trained[1]], data=trained[3], load=load_model)[0].ensemble
    for sentence, line in zip(read["sentences"], printed, strict=False):
        source = " ".join(sentence["source"][:-1])
        assert " ".join(sentence["target"][:-1]) == line == best_translation(model, source)
        arch = next(name for name in LAYERS if name in trained[1])
        assert [entry["name"] for entry in sentence["maps"]] == LAYERS[arch]
        (maps,) = attention_of_pair(model, source, line).maps
        expected = {one.name: one for one in maps}
        for entry in sentence["maps"]:
            weights = expected[entry["name"]].weights[0]
            torch.testing.assert_close(torch.tensor(entry["weights"]), weights, atol=1e-6, rtol=0)


@pytest.mark.parametrize("suffix", ["html", "png", "svg"])
def test_all_layers_and_heads_in_every_format(trained, suffix, tmp_path):
    output = tmp_path / f"attention.{suffix}"
    every = ["--layers", "all", "--heads", "all", "--target", "one $ two $"]
    call([*trained, "--output", output, *every, "ein $ zwei $"])
    assert output.stat().st_size > 5_000
    if suffix == "svg" and "adl" in trained[1]:
        assert "decoder.3: mh_dot_self_att, head 2" in output.read_text(encoding="utf-8")


def test_two_models_and_a_file_of_sentences(convs2s, tmp_path, capsys):
    other = make_checkpoint(tmp_path / "other", "pervasive")
    (tmp_path / "de").write_text("ein zwei\ndrei\n", encoding="utf-8")
    (tmp_path / "en").write_text("one two\nthree four\n", encoding="utf-8")
    files = ["--input", tmp_path / "de", "--target-input", tmp_path / "en"]
    output = tmp_path / "a.json"
    call([*convs2s, *other[:2], "--layers", "2,max", "--output", output, *files])
    assert capsys.readouterr().out.splitlines() == ["one two", "three four", str(output)]
    read = json.loads(output.read_text(encoding="utf-8"))
    assert read["models"] == [convs2s[1], other[1]]
    for sentence in read["sentences"]:
        named = [(entry["model"], entry["name"]) for entry in sentence["maps"]]
        assert named == [(0, "source.2"), (1, "source.max")]
    call([*convs2s, *other[:2], "--layers", "2,max", "--output", tmp_path / "a.png", *files])
    call([*convs2s, "--output", output, "--input", tmp_path / "de"])
    assert len(json.loads(output.read_text(encoding="utf-8"))["sentences"]) == 2


def test_a_family_of_a_user(tmp_path):
    """In a process of its own, which does not know the family before ``--user-dir``."""
    pytest.importorskip("fairseq")
    trained = make_checkpoint(tmp_path / "model", "bag_of_words_small", {})
    output = tmp_path / "a.json"
    program = [server().programs / "convs2s", "plot-attention", *trained]
    program += ["--output", str(output), "ein zwei", "--target", "one"]
    done = subprocess.run(program, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode != 0 and not output.exists()
    assert "model that is unknown here" in done.stderr
    assert "Traceback" not in done.stderr
    package = str(ROOT / "tests" / "packages" / "bag_of_words")
    done = subprocess.run(
        [*program, "--user-dir", package], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    (sentence,) = json.loads(output.read_text(encoding="utf-8"))["sentences"]
    assert [entry["name"] for entry in sentence["maps"]] == ["source.1"]


def test_a_layer_of_a_user(tmp_path, monkeypatch):
    """A model whose decoder has an attention layer of another package (``--user-dir``)."""
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))
    package = tmp_path / "plotted_layers"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from convs2s.models.adl.language.registry import BLOCK, POSITION, register_layer\n"
        "from convs2s.models.adl.language.layers.attention import WEIGHT_DROPOUT\n"
        "from convs2s.models.adl.layers.attention import DotAttentionLayer\n"
        "from convs2s.models.adl.language.layers.attention import WIDTH_SCALE, attended_width\n"
        "from convs2s.models.adl.language.registry import Cost\n"
        "@register_layer('plotted_att', 'for a test', WIDTH_SCALE, BLOCK, WEIGHT_DROPOUT,\n"
        "    reach=POSITION, width=attended_width, cost=Cost(), attends=True)\n"
        "class PlottedAttention(DotAttentionLayer):\n"
        "    'Dot attention under another name.'\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    __import__("plotted_layers")
    given = dict(encoder_adl="cnn", decoder_adl="cnn -> plotted_att", model_dim=8)
    trained = make_checkpoint(tmp_path / "model", "adl", given)
    output = tmp_path / "a.json"
    call([*trained, "--user-dir", package, "--output", output, "ein"])
    (sentence,) = json.loads(output.read_text(encoding="utf-8"))["sentences"]
    assert [entry["description"] for entry in sentence["maps"]] == ["plotted_att"]


def test_a_model_without_attention_to_the_source(tmp_path):
    given = dict(encoder_adl="mh_dot_self_att(h=2)", decoder_adl="cnn", model_dim=8)
    trained = make_checkpoint(tmp_path / "self", "adl", given)
    call([*trained, "--output", tmp_path / "a.png", "--layers", "encoder.1", "ein zwei"])
    with pytest.raises(UserError, match="No layer .* attends to the source"):
        call([*trained, "--output", tmp_path / "a.png", "ein zwei"])
    given = dict(encoder_adl="cnn", decoder_adl="cnn", model_dim=8)
    trained = make_checkpoint(tmp_path / "none", "adl", given)
    with pytest.raises(UserError, match="AdlNetwork returns no attention: there is"):
        call([*trained, "--output", tmp_path / "a.html", "ein zwei"])


@torch.no_grad()
def test_attention_is_that_of_the_target_tokens(trained):
    """Pervasive attention has alignments that depend on the target token."""
    model = load_translators([trained[1]], data=trained[3], load=load_model)[0].ensemble
    (network,) = model.models
    if not getattr(network, "aligns_tokens", False):
        pytest.skip("attention does not depend on the tokens")
    source, target = (
        torch.tensor([vocabulary.encode_line(text)])
        for vocabulary, text in ((model.source, "ein zwei drei"), (model.target, "one two"))
    )
    encoded = network.encode(source)
    previous = target.roll(1, dims=1)
    (maps,) = attention_of_pair(model, "ein zwei drei", "one two").maps
    _, attention = network.decode(previous, encoded, need_weights=True, target_tokens=target)
    torch.testing.assert_close(maps.mean(), attention)
    _, attention = network.decode(previous, encoded, need_weights=True)
    assert not torch.allclose(maps.mean(), attention)


@pytest.mark.parametrize(
    "arguments, sentence",
    (
        (["ein", "--output", "a.png", "--beam", "0"], "at least 1"),
        (["ein", "--output", "a.doc"], r"must end in \.png"),
        (["ein", "--output", "a.png", "--target", "one", "--target", "two"], "2 --target"),
        (["ein", " ", "--output", "a.png"], "Sentence 2 is empty"),
        (["ein " * 5_000, "--output", "a.png"], "5001 tokens"),
        (["ein", "--output", "a.png", "--target", "one " * 100], "101 tokens"),
        (["ein", "--output", "a.png", "--bpe-codes", "missing"], "no file missing .--bpe-codes"),
        (["ein", "--output", "a.png", "--path", "missing"], "no checkpoint or folder missing"),
        (["ein", "--output", "a.png", "--data", "missing"], "no folder missing .--data"),
        (["ein", "--output", "a.png", "--user-dir", "missing"], "no folder missing .--user-dir"),
        (["ein", "--output", "a.html", "--layers", "17"], "no attention layer '17'"),
        (["ein", "--output", "a.html", "--heads", "17"], "no head '17'|no single heads"),
        (["--output", "a.html"], "with --input"),
        (["ein", "--input", "b", "--output", "a.html"], "with --input"),
        (["--input", "missing", "--output", "a.html"], "no file missing"),
        (["--input", "b", "--output", "a.html"], r"b is empty\."),
        (["ein", "--target-input", "b", "--output", "a.html"], "--input, which is missing"),
        (["--input", "b", "--target", "c", "--output", "a.html"], "with --target-input"),
        (["ein", "--output", "missing/a.html"], "no folder missing"),
    ),
)
def test_errors(trained, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b").touch()
    with pytest.raises(UserError, match=sentence):
        call([*trained, *arguments])


def test_other_dictionaries(trained, tmp_path):
    write_dictionaries(tmp_path / "other", WORDS[:4])
    with pytest.raises(UserError, match="dictionar"):
        call([*trained, "--data", tmp_path / "other", "--output", tmp_path / "a.png", "ein"])
