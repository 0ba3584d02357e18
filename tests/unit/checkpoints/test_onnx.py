"""The ONNX files of a network: onnxruntime computes what the network computes."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim, export

from convs2s.checkpoints.export.graphs import trace
from convs2s.checkpoints.export.onnx_files import check_exportable, export_onnx
from convs2s.checkpoints.folders import ENCODER_GRAPH, STEP_GRAPH
from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from convs2s.models.interface import resolve_attention
from convs2s.nn.state import State
from tests.support.batches import EOS, PAD, random_batch, vocabulary
from tests.support.families import make, tiny_adl

STEPS = 7
# Numbers of tokens of each sentence, whether padding precedes them, and hypotheses of each.
BATCHES = {
    "padded on the left": ([7, 3, 11, 1], True, 1),
    "padded on the right": ([7, 3, 11, 1], False, 3),
    "two words": ([2, 2], False, 2),
    "one sentence": ([3], False, 1),
    "one word": ([1], False, 4),
}
# Together, they have all kinds of state, and most layers that differ in a graph.
NETWORKS = ["adl-rnmt", "adl-attention", "adl-mixers", "adl-beyond", "pervasive-max-attn-gated"]


def ready(network):
    network.prepare_for_generation_()
    return network


@pytest.fixture(scope="module", params=NETWORKS)
def exported(request, tmp_path_factory):
    """A network, and its encoder and decoding step in onnxruntime."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name, reason="the extra export is not installed")
    import onnxruntime

    folder = tmp_path_factory.mktemp("model")
    files = [folder / "dict.de.txt", folder / "dict.en.txt"]
    for file in files:
        vocabulary().save(str(file))
    network = ready(make(request.param))
    export_onnx(network, str(folder / "onnx"), files)
    names = sorted(path.name for path in (folder / "onnx").iterdir())
    assert names == [STEP_GRAPH, "dict.de.txt", "dict.en.txt", ENCODER_GRAPH]
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return network, *(
        onnxruntime.InferenceSession(str(folder / "onnx" / name), options)
        for name in (ENCODER_GRAPH, STEP_GRAPH)
    )


def run(session, feed):
    """Outputs by name; new states have the names of the old ones."""
    names = [each.name.removeprefix("new_") for each in session.get_outputs()]
    return dict(zip(names, session.run(None, feed)))


@pytest.mark.slow
@torch.no_grad()
def test_onnxruntime_computes_what_the_network_computes(exported):
    network, encoder, step = exported
    for lengths, left_pad, beam in BATCHES.values():
        batch = random_batch([(length, 1) for length in lengths], left_pad)
        tokens = batch["net_input"]["src_tokens"]
        encoded, state = network.encode(tokens.repeat_interleave(beam, dim=0)), State()
        prefix = torch.full((len(tokens) * beam, 1), EOS)
        found = run(encoder, {"src_tokens": tokens.numpy()})
        # The rows of a sentence share its source.
        for name in found:
            if not name.startswith("source"):
                found[name] = np.repeat(found[name], beam, axis=0)
        # Each continues with another token.
        ranks = torch.arange(len(prefix)).remainder(beam)[:, None]
        for _ in range(STEPS):
            features, attention = network.decoder.run(prefix, encoded, state, need_weights=True)
            logits = network.logits(features[:, -1:])
            weights = resolve_attention(attention, logits)
            np.testing.assert_allclose(found["logits"], logits[:, -1].numpy(), atol=1e-4)
            np.testing.assert_allclose(found["attention"], weights[:, -1].numpy(), atol=1e-4)
            logits[..., PAD] = -torch.inf
            best = logits[:, -1].topk(beam).indices.gather(1, ranks)
            prefix = torch.cat([prefix, best], dim=1)
            names = {each.name for each in step.get_inputs()} - {"prefix"}
            assert all(name.startswith(("source", "state")) for name in names)
            feed = {name: found[name] for name in names}
            found = {**found, **run(step, {"prefix": prefix.numpy(), **feed})}
    for session in (encoder, step):
        assert session.get_modelmeta().custom_metadata_map == {
            **{"eos": "2", "pad": "1", "max_source_positions": "64"},
            **{"max_target_positions": "64", "source_dictionary": "dict.de.txt"},
            "target_dictionary": "dict.en.txt",
        }


# Those whose computation over a whole sentence differs in a graph.
LAYERS = (
    *("pos", "learn_pos", "birnn", "birnn(gru)", "birnn(lnlstm)", "birnn(lngru)", "qrnn(k=3)"),
    *("min_gru", "min_lstm", "ssru", "rg_lru", "ema(3)", "mega_self_att(n=2)", "retention"),
    *("gla(h=2)", "mamba2(n=4, k=3)", "light_conv(k=4)", "dynamic_conv(h=2)", "cnn(k=4)"),
    *("mh_dot_self_att(window=2)", "mh_dot_self_att(pos=rope)", "mh_dot_self_att(pos=alibi)"),
)


@pytest.mark.parametrize("layer", LAYERS)
@torch.no_grad()
def test_a_graph_encodes_sentences_of_any_length(layer):
    network = ready(tiny_adl(encoder_adl=layer, decoder_adl="mh_dot_src_att"))
    columns = {0: Dim("batch"), 1: Dim("length", max=64)}

    class Encode(nn.Module):
        def __init__(self):
            super().__init__()
            self.network = network

        def forward(self, tokens):
            return self.network.encode(tokens)["encoder_out"]

    graph = export(
        Encode().eval(),
        (torch.full((3, 5), EOS),),
        dynamic_shapes=(columns,),
        strict=False,
        prefer_deferred_runtime_asserts_over_guards=True,
    ).module()
    for lengths, left_pad in (([7, 3, 11, 1], True), ([7, 3, 11, 1], False), ([40, 40], False)):
        batch = random_batch([(length, 1) for length in lengths], left_pad)
        tokens = batch["net_input"]["src_tokens"]
        encoded = network.encode(tokens)
        found, expected = graph(tokens), encoded["encoder_out"]
        if (padding := encoded["encoder_padding_mask"]) is not None:
            found, expected = (each[~padding] for each in (found, expected))
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


class Fails(nn.Module):
    """A layer that cannot be in a graph for all batches."""

    def __init__(self, compute):
        super().__init__()
        self.compute = compute

    def forward(self, x, context):
        return x + self.compute(x)


@pytest.mark.parametrize(
    "compute, reason",
    [
        (len, r"it computes with the size of one batch, as `len\(x\)` .*`x.size\(1\)`\."),
        (lambda x: int(x.argmax()) + 1 if x.max() > 0 else 1, "GuardOnDataDependent.*line|.py:"),
        (lambda x: undefined, "NameError: name 'undefined' is not defined."),  # noqa: F821
    ],
    ids=["length", "content", "error"],
)
def test_what_cannot_be_exported_is_refused_by_the_name_of_the_layer(compute, reason):
    network = ready(tiny_adl(encoder_adl="res(linear)", decoder_adl="res(linear -> id) -> dot_att"))
    network.decoder.layers[0].chain[1] = Fails(compute)
    layer = r"decoder\.layers\.0\.chain\.1 \(Fails\)"
    with pytest.raises(UserError, match=f"cannot be exported because of {layer}: .*{reason}"):
        trace(network, EOS)


@pytest.mark.parametrize("arch", ["transformer", "fconv_iwslt_de_en"])
def test_models_of_fairseq_are_refused(arch):
    checkpoint = Checkpoint("x.pt", {}, {"_name": arch}, {})
    with pytest.raises(UserError, match=f"x.pt has a model of --arch {arch}, but only models of"):
        check_exportable(checkpoint)


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr("convs2s.checkpoints.export.onnx_files.find_spec", lambda name: None)
    checkpoint = Checkpoint("x.pt", {}, {"arch": "convs2s"}, {})
    with pytest.raises(UserError, match=r"needs onnx and onnxscript: run `pip install"):
        check_exportable(checkpoint)
