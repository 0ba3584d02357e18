"""The ONNX files of ConvS2S: onnxruntime computes what the model computes."""

import numpy as np
import pytest
import torch

from convs2s.checkpoints.export.onnx_files import (
    DECODER,
    ENCODER,
    DecoderStepModule,
    EncoderModule,
    check_exportable,
    export_onnx,
)
from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from convs2s.nn.state import State
from tests.support.batches import EOS, PAD, random_batch, vocabulary
from tests.support.doc_blocks import DOCS, blocks
from tests.support.families import CONVS2S, tiny_convs2s

STEPS = 12
SOURCES = [(7, 1), (3, 1), (11, 1), (1, 1)]
MODEL = dict(
    encoder_layers="[(16, 4), (24, 3, 2)]",
    decoder_layers="[(16, 3), (24, 2, 2), (20, 1)]",
    decoder_attention="[True, False, True]",
)


def ready(**options):
    """A model that is ready for generation."""
    model = tiny_convs2s(**options)
    model.prepare_for_generation_()
    return model


def source_tokens(left_pad=True):
    return random_batch(SOURCES, left_pad)["net_input"]["src_tokens"]


def most_probable(logits):
    """R x 1, the most probable token of R x V that is not padding."""
    return logits.index_fill(1, torch.tensor([PAD]), -torch.inf).argmax(1)[:, None]


@torch.no_grad()
def greedy(model, src_tokens):
    """The most probable token of each step, by the model's own incremental decoding."""
    encoded, state = model.encode(src_tokens), State()
    prefix = torch.full((len(src_tokens), 1), EOS)
    for _ in range(STEPS):
        features, _ = model.decode(prefix, encoded, state)
        prefix = torch.cat([prefix, most_probable(model.logits(features[:, -1]))], dim=1)
    return prefix[:, 1:].numpy()


@pytest.mark.parametrize("name", CONVS2S)
@torch.no_grad()
def test_the_modules_compute_what_the_model_computes(name):
    model = ready(**CONVS2S[name])
    encoder, step = EncoderModule(model.encoder), DecoderStepModule(model.decoder)
    src_tokens = source_tokens()
    source = encoder(src_tokens)
    caches = [torch.zeros(len(src_tokens), *size) for size in step.cached.values()]
    encoded, state = model.encode(src_tokens), State()
    prefix = torch.full((len(src_tokens), 1), EOS)
    for position in range(STEPS):
        features, weights = model.decode(prefix, encoded, state, need_weights=True)
        logits, attention, caches = step(prefix[:, -1], torch.tensor(position), source, caches)
        torch.testing.assert_close(logits, model.logits(features[:, -1]))
        torch.testing.assert_close(attention, weights[:, -1])
        prefix = torch.cat([prefix, most_probable(logits)], dim=1)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A model and the folder of its ONNX files."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra export is not installed")
    folder = tmp_path_factory.mktemp("model")
    for language in ("de", "en"):
        vocabulary().save(str(folder / f"dict.{language}.txt"))
    model = ready(**MODEL)
    export_onnx(model, str(folder / "onnx"), [folder / "dict.de.txt", folder / "dict.en.txt"])
    return model, folder / "onnx"


@pytest.fixture(scope="module")
def sessions(exported):
    """The encoder and the decoding step in onnxruntime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return [
        onnxruntime.InferenceSession(str(exported[1] / name), options)
        for name in (ENCODER, DECODER)
    ]


def test_a_folder_of_models_and_dictionaries(exported, sessions):
    names = sorted(path.name for path in exported[1].iterdir())
    assert names == [DECODER, "dict.de.txt", "dict.en.txt", ENCODER]
    for session in sessions:
        assert session.get_modelmeta().custom_metadata_map == {
            "eos": "2",
            "pad": "1",
            "max_source_positions": "64",
            "max_target_positions": "64",
        }


@pytest.mark.parametrize("left_pad", [True, False])
@pytest.mark.parametrize("batch", [slice(4), slice(1, 3), slice(3, 4)], ids=["4", "2", "1"])
@torch.no_grad()
def test_outputs_are_equal_for_any_batch_size_and_length(exported, sessions, batch, left_pad):
    model, encoder, step = exported[0], *sessions
    src_tokens = source_tokens(left_pad)[batch]
    if len(src_tokens) == 1:
        src_tokens = src_tokens[src_tokens != PAD][None]
    expected = EncoderModule(model.encoder)(src_tokens)
    actual = encoder.run(None, {"src_tokens": src_tokens.numpy()})
    for ours, theirs in zip(expected, actual):
        np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-4)
    module, generator = DecoderStepModule(model.decoder), torch.Generator().manual_seed(1)
    caches = [
        torch.randn(len(src_tokens), *size, generator=generator) for size in module.cached.values()
    ]
    tokens, position = torch.arange(4, 4 + len(src_tokens)), torch.tensor(5)
    logits, attention, new_caches = module(tokens, position, expected, caches)
    feed = {
        **{"prev_tokens": tokens, "position": position, **expected._asdict()},
        **{f"cache{i}": cache for i, cache in enumerate(caches)},
    }
    outputs = step.run(None, {name: tensor.numpy() for name, tensor in feed.items()})
    for ours, theirs in zip((logits, attention, *new_caches), outputs):
        np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-4)


def test_the_loop_of_the_page_decodes_as_the_model_does(exported, monkeypatch):
    (page,) = (block.code for block in blocks(DOCS / "export.md") if block.language == "python")
    monkeypatch.chdir(exported[1].parent)
    names = {}
    exec(page, names)
    src_tokens = source_tokens()
    expected = greedy(exported[0], src_tokens)
    found = names["decode"](src_tokens.numpy(), STEPS)
    assert len(found) == len(expected)
    for tokens, row in zip(found, expected.tolist()):
        assert tokens == (row[: row.index(EOS)] if EOS in row else row)


def test_the_decoding_step_refuses_a_position_that_it_has_not(exported, sessions):
    step = sessions[1]
    source = EncoderModule(exported[0].encoder)(source_tokens())
    shapes = {entry.name: entry.shape for entry in step.get_inputs()}
    feed = {
        **{"prev_tokens": np.full(4, EOS), "position": np.array(64)},
        **{name: tensor.detach().numpy() for name, tensor in source._asdict().items()},
        **{
            name: np.zeros((4, *shape[1:]), np.float32)
            for name, shape in shapes.items()
            if name.startswith("cache")
        },
    }
    with pytest.raises(Exception, match="out of data bounds|out of bounds"):
        step.run(None, feed)


@pytest.mark.parametrize("arch", ["adl_transformer", "pervasive_iwslt_de_en", "transformer"])
def test_other_models_are_refused(arch):
    checkpoint = Checkpoint("x.pt", {}, {"_name": arch}, {})
    with pytest.raises(UserError, match=f"x.pt has a model of --arch {arch}"):
        check_exportable(checkpoint)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("convs2s.checkpoints.export.onnx_files.find_spec", lambda name: None)
    checkpoint = Checkpoint("x.pt", {}, {"arch": "convs2s"}, {})
    with pytest.raises(UserError, match=r"needs onnx and onnxscript: run `pip install"):
        check_exportable(checkpoint)
