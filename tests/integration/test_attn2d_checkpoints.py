"""``convs2s convert-attn2d``: scores and translations stay those of the 2018 code."""

import json
import pickle
from argparse import Namespace

import pytest
import torch

from convs2s.checkpoints.legacy.attn2d_files import dictionary_text, read_vocabulary
from convs2s.cli import main as convs2s
from convs2s.translation import Translator
from tests.support.attn2d import BOS, params, random_network

SPECIAL = ["<PAD>", "<UNK>", "<EOS>", "<BOS>"]
SOURCE = [*SPECIAL, *(f"q{i}" for i in range(9))]
TARGET = [*SPECIAL, *(f"z{i}" for i in range(7))]
SENTENCES = ["q0 q3 q8 q1", "q5", "q2 q2 q7 q4 q6 q0 q1"]


def infos(path, tokens):
    """A vocabulary as preprocess.py pickles it."""
    content = {"itow": dict(enumerate(tokens)), "params": Namespace(src="de", max_length=50)}
    path.write_bytes(pickle.dumps(content, protocol=4))


def write_old(folder, options, tensors, vocabularies=(SOURCE, TARGET)):
    """The folders of the model and of its data."""
    (folder / "save").mkdir()
    (folder / "data").mkdir()
    # torch 0.4 had no zip files.
    torch.save(tensors, folder / "save" / "model.pth", _use_new_zipfile_serialization=False)
    options["data"]["dir"] = str(folder / "data")
    (folder / "save" / "params.json").write_text(json.dumps(options))
    for language, tokens in zip(("de", "en"), vocabularies):
        infos(folder / "data" / f"{language}.infos", tokens)


def convert(folder, *arguments):
    (folder / "new").mkdir(exist_ok=True)
    old, new = folder / "save" / "model.pth", folder / "new" / "model.pt"
    return convs2s(["convert-attn2d", str(old), str(new), *map(str, arguments)])


def log_probabilities(translator, source, target):
    """Those of the converted model, T x V, in the order of the old vocabulary."""
    (network,), symbols = translator.ensemble.models, translator.ensemble.target
    ours = torch.tensor([translator.ensemble.source.encode_line(source)])
    # fairseq starts a target with the end of a sentence.
    prefix = torch.tensor([symbols.eos(), *(symbols.index(token) for token in target)])
    with torch.no_grad():
        logits = network(ours, prefix.unsqueeze(0))
    old = [symbols.index(token) for token in ("<pad>", "<unk>", "</s>", "<s>", *TARGET[4:])]
    return logits[0].log_softmax(dim=-1)[:, old]


CASES = {
    "published": {},
    "first layers wide": dict(network__half_inputs=0),
    "gated": dict(network__gated=1, network__kernel=5),
    "bias": dict(network__bias=1),
    "average": dict(aggregator__mode="truncated-mean"),
    "attention": dict(
        aggregator__mode="max-attention",
        aggregator__first_aggregator="max",
        aggregator__nonlin="none",
    ),
    "attention alone": dict(
        aggregator__mode="max-attention",
        aggregator__first_aggregator="skip",
        aggregator__scale_ctx=0,
        network__half_inputs=0,
    ),
    "own output": dict(decoder__tie_target_weights=0, aggregator__mode="truncated-max"),
    "no last norm": dict(network__use_st=1, network__bias=1, network__half_inputs=0),
    "one layer": dict(network__num_layers=[1], network__gated=1, network__use_st=1),
    "weight norm": dict(network__weight_norm=1),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("old_names", [True, False], ids=["first", "later"])
def test_same_scores_and_translations(case, old_names, tmp_path, capsys):
    options = params(**CASES[case])
    plain = random_network(options, (len(SOURCE), len(TARGET)), old_names)
    tensors = plain.state_dict()
    if not old_names:
        tensors = {f"module.{name}": tensor for name, tensor in tensors.items()}
    write_old(tmp_path, options, tensors)
    assert convert(tmp_path) == 0
    printed = capsys.readouterr().out
    assert ("Trained further" in printed) == (case in ("no last norm", "one layer", "weight norm"))
    translator = Translator(tmp_path / "new" / "model.pt", device="cpu", beam=1, max_len_b=19)
    assert translator.languages == ("de", "en")
    for line, found in zip(SENTENCES, translator.translate(SENTENCES)):
        source = torch.tensor([SOURCE.index(token) for token in line.split()])
        target = TARGET[4:9]
        expected = plain(source, torch.tensor([BOS, *map(TARGET.index, target)]))
        torch.testing.assert_close(
            log_probabilities(translator, line, target), expected, rtol=0, atol=1e-5
        )
        assert found.hypotheses[0].tokens == [TARGET[i] for i in plain.greedy(source, 19)]


def test_one_matrix_for_both_languages(tmp_path):
    options = params(decoder__copy_source_weights=1, encoder__input_dim=8)
    plain = random_network(options, (len(SOURCE), len(SOURCE)))
    write_old(tmp_path, options, plain.state_dict(), (SOURCE, SOURCE))
    assert convert(tmp_path) == 0
    translator = Translator(tmp_path / "new" / "model.pt", device="cpu", beam=1, max_len_b=9)
    (model,) = translator.ensemble.models
    assert model.encoder.embed.words is model.decoder.output.words
    source = torch.tensor([SOURCE.index(token) for token in SENTENCES[0].split()])
    (found,) = translator.translate(SENTENCES[:1])
    assert found.hypotheses[0].tokens == [SOURCE[i] for i in plain.greedy(source, 9)]


def test_padding_changes_nothing(tmp_path):
    """Neither padding nor the end of the source are seen, except in an empty sentence."""
    options = params()
    plain = random_network(options, (len(SOURCE), len(TARGET)))
    write_old(tmp_path, options, plain.state_dict())
    convert(tmp_path)
    translator = Translator(tmp_path / "new" / "model.pt", device="cpu")
    (model,) = translator.ensemble.models
    sources = torch.tensor([[1, 1, 7, 9, 2], [5, 6, 7, 9, 2], [7, 9, 2, 1, 1], [1, 1, 1, 1, 2]])
    logits = model(sources, torch.tensor([[2, 6, 7]]).expand(4, -1))
    torch.testing.assert_close(logits[0], logits[2])
    assert logits.isfinite().all() and not torch.allclose(logits[0], logits[1])


REFUSED = {
    "type": (dict(network__type="residual"), "network.type is residual"),
    "positions": (dict(decoder__encode_position=1), "decoder.encode_position is 1"),
    "mean": (dict(aggregator__mode="mean"), "divides by the square root of the length"),
    "nonlin": (
        dict(
            aggregator__mode="max-attention",
            aggregator__first_aggregator="max",
            aggregator__nonlin="tanh",
        ),
        "aggregator.nonlin is tanh",
    ),
    "gated with bias": (dict(network__gated=1, network__bias=1), "network.bias is 1 with"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_networks_that_this_package_does_not_have(kind, tmp_path, capsys):
    changes, message = REFUSED[kind]
    options = params(**changes)
    usual = {name: value for name, value in changes.items() if name.startswith("network__")}
    usual.pop("network__type", None)
    plain = random_network(params(**usual), (len(SOURCE), len(TARGET)))
    write_old(tmp_path, options, plain.state_dict())
    assert convert(tmp_path) == 2
    assert message in capsys.readouterr().err
    assert not list((tmp_path / "new").iterdir())


def test_other_weights(tmp_path, capsys):
    plain = random_network(params(), (len(SOURCE), len(TARGET)))
    first = "net.features.denseblock1.denselayer1"
    tensors = plain.state_dict()

    def every(weight):
        """Another weight of the second convolution of each layer."""
        return {name: weight for name in tensors if name.endswith(".conv2.weight")}

    for name, change, message in (
        (
            "two blocks",
            {"net.features.denseblock2.denselayer1.norm1.weight": torch.ones(3)},
            "several",
        ),
        ("more weights", {"src_embedding.conv.conv0.weight": torch.ones(1, 2, 3)}, "(1 x 2 x 3)"),
        ("a large kernel", {f"{first}.conv2.weight": torch.ones(4, 8, 5, 5)}, "network.kernels is"),
        ("even kernels", every(torch.ones(4, 8, 4, 4)), "network.kernel is 4 x 4, but"),
        ("flat kernels", every(torch.ones(4, 8, 3, 5)), "network.kernel is 3 x 5, but"),
        ("groups", every(torch.ones(4, 4, 3, 3)), "network.depthwise is None, but"),
        ("short norm", {f"{first}.norm1.weight": torch.ones(2)}, "contradict each other"),
        (
            "other embeddings",
            {"src_embedding.label_embedding.weight": torch.ones(3, 6)},
            "3 source",
        ),
    ):
        folder = tmp_path / name
        folder.mkdir()
        write_old(folder, params(), {**tensors, **change})
        assert convert(folder) == 2, name
        assert message in capsys.readouterr().err
        assert not list((folder / "new").iterdir())


def test_files(tmp_path, capsys):
    """Files that are missing, and files that are something else."""
    write_old(tmp_path, params(), random_network(params(), (13, 11)).state_dict())
    old = tmp_path / "save" / "model.pth"

    def refused(*arguments):
        assert convert(tmp_path, *arguments) == 2
        assert not (tmp_path / "new" / "model.pt").exists()
        return capsys.readouterr().err

    text = tmp_path / "vocab.de"
    text.write_text("".join(f"{token}\n" for token in SOURCE[4:-1]))
    assert "the source vocabulary has 12 tokens" in refused("--source-vocab", text)
    (tmp_path / "new" / "dict.en.txt").write_text("other 1\n")
    assert "dict.en.txt is another dictionary" in refused()
    (tmp_path / "new" / "dict.en.txt").unlink()
    (tmp_path / "data" / "en.infos").rename(tmp_path / "moved.infos")
    assert "give it with --target-vocab" in refused()
    assert "it has no entry itow" in refused("--target-vocab", pickled(tmp_path, {"a": 1}))
    assert "no params.json" not in refused("--params", tmp_path / "no.json")
    options = params()
    options["data"].update(src="../../de", trg="en", dir=str(tmp_path / "data"))
    (tmp_path / "foreign.json").write_text(json.dumps(options))
    assert "source language is '../../de': it must be" in refused(
        "--params", tmp_path / "foreign.json"
    )
    torch.save({"model": {}, "args": Namespace(arch="pervasive", convnet="resnet")}, old)
    assert "trained with --arch pervasive --convnet resnet" in refused()
    torch.save([1, 2], old)
    assert "which holds only weights" in refused()


def pickled(folder, content):
    path = folder / "other.infos"
    path.write_bytes(pickle.dumps(content, protocol=4))
    return path


def test_vocabularies(tmp_path):
    """Text files get the special tokens that they do not have; a pickle runs nothing."""
    path = tmp_path / "vocab.en"
    path.write_text("ein\n<UNK>\nzwei\n", encoding="utf-8")
    assert read_vocabulary(path) == ["<PAD>", "<EOS>", "<BOS>", "ein", "<UNK>", "zwei"]
    tokens = [*SPECIAL, "a", "<s>", "a"]
    infos(tmp_path / "en.infos", tokens)
    assert read_vocabulary(tmp_path / "en.infos") == tokens
    assert dictionary_text(tokens) == "a 1\n<s> 1 #fairseq:overwrite\na 1 #fairseq:overwrite\n"
    marker = tmp_path / "executed"
    harmful = f"cposix\nsystem\n(S'touch {marker}'\ntR.".encode()
    (tmp_path / "bad.infos").write_bytes(b"\x80\x02" + harmful)
    with pytest.raises(ValueError, match="is not a vocabulary of the 2018 code"):
        read_vocabulary(tmp_path / "bad.infos")
    assert not marker.exists()
