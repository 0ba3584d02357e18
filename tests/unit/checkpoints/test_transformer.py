"""Models in ADL exported to fairseq's transformer: the checkpoint, or a refusal."""

import pytest
import torch

from convs2s.checkpoints.export.transformer import export_transformer
from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from tests.support.transformers import MODELS, SHARE_ALL, TIED, model_and_checkpoint, pre_norm


def test_matrices_stay_shared_unless_the_output_has_a_bias():
    names = ["encoder.embed_tokens", "decoder.embed_tokens", "decoder.output_projection"]
    for options, bias, distinct in (
        (SHARE_ALL, False, 1),
        (TIED, False, 2),
        ({}, False, 3),
        (SHARE_ALL, True, 2),
    ):
        _, checkpoint = model_and_checkpoint(*MODELS["pre-norm"][:2], options, bias)
        exported = export_transformer(checkpoint)
        found = {exported["model"][f"{name}.weight"].data_ptr() for name in names}
        assert len(found) == distinct
        cfg = exported["cfg"]["model"]
        assert cfg["share_all_embeddings"] == (distinct == 1)
        assert cfg["share_decoder_input_output_embed"] == (distinct < 3 and not bias)


def test_a_checkpoint_of_plain_data(tmp_path):
    _, checkpoint = model_and_checkpoint(*MODELS["pre-norm"])
    torch.save(export_transformer(checkpoint), tmp_path / "exported.pt")
    # Without the classes that importing the package allows.
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        loaded = torch.load(tmp_path / "exported.pt", weights_only=True)
    finally:
        torch.serialization.add_safe_globals(allowed)
    options = loaded["cfg"]["model"]
    assert options["arch"] == options.arch == "transformer" and options["encoder_layers"] == 2
    assert loaded["cfg"]["task"] == {"_name": "translation", "left_pad_source": True}
    assert loaded["cfg"]["criterion"]["label_smoothing"] == 0.1
    assert loaded["optimizer_history"][-1]["num_updates"] == 7


ENCODER, DECODER, _ = MODELS["pre-norm"]
REFUSED = {
    "another epsilon": (
        ENCODER.replace("-> norm", "-> norm(eps=0.01)"),
        DECODER,
        {},
        "'norm' has eps=0.01, which is not exported to fairseq's transformer: omit eps.",
    ),
    "attention with biases": (
        ENCODER,
        DECODER.replace("mh_dot_src_att", "mh_dot_src_att(bias=true)"),
        {},
        "'mh_dot_src_att' has bias=true, which is not exported to fairseq's transformer: omit bias",
    ),
    "another layer": (
        ENCODER.replace("mh_dot_self_att", "birnn"),
        DECODER,
        {},
        "--encoder-adl, line 1, column 25: 'birnn' is in the way of the export: fairseq's "
        "transformer has 'mh_dot_self_att' in its place.",
    ),
    "no positions": (
        pre_norm(1),
        DECODER,
        {},
        "'res' is in the way of the export: fairseq's transformer has 'pos' or 'learn_pos' in its",
    ),
    "no self-attention": (
        ENCODER,
        f"pos -> {pre_norm(2, ['mh_dot_src_att'])}",
        {},
        "--decoder-adl, line 1, column 25: 'mh_dot_src_att' is in the way",
    ),
    "no last norm": (
        ENCODER.removesuffix(" -> norm"),
        DECODER,
        {},
        "after 'res', the export needs 'norm', which fairseq's transformer has there",
    ),
    "no norm at all": (
        "pos -> res_d(mh_dot_self_att) -> res_d(ffl)",
        DECODER,
        {},
        "'res' is in the way of the export: fairseq's transformer has 'norm' in its place",
    ),
    "no residual": (
        "pos -> mh_dot_self_att -> ffl",
        DECODER,
        {},
        "'mh_dot_self_att' is in the way of the export: fairseq's transformer has "
        "'res_d(mh_dot_self_att) -> norm' in its place",
    ),
    "half a feed-forward": (
        ENCODER.replace("ffl", "linear"),
        DECODER,
        {},
        "'linear' is in the way of the export: fairseq's transformer has 'ff' in its place",
    ),
    "a layer too many": (
        ENCODER.replace("ffl", "ffl -> linear"),
        DECODER,
        {},
        "'linear' is in the way of the export: fairseq's transformer has nothing in its place",
    ),
    "a layer too few": (
        ENCODER.replace("ffl", "ff(d=16)"),
        DECODER,
        {},
        "after 'ff', the export needs 'linear', which fairseq's transformer has there",
    ),
    "a layer at the end": (
        f"{ENCODER} -> linear",
        DECODER,
        {},
        "'linear' is in the way of the export: fairseq's transformer has nothing in its place",
    ),
    "another block": (
        ENCODER,
        DECODER.replace("src_att", "src_att(block=1)"),
        {},
        "'mh_dot_src_att' attends to encoder block 1, but fairseq's transformer to the topmost, 2",
    ),
    "other heads": (
        f"pos -> {pre_norm(1)}".replace("norm", f"{pre_norm(1, ['mh_dot_self_att(h=2)'])}"),
        DECODER,
        {},
        "'mh_dot_self_att' has h=2 here and h=4 in the first block, but all blocks of the encoder",
    ),
    "other inner channels": (
        ENCODER,
        DECODER.replace("self_att", "self_att(d_p=8)"),
        {},
        "'mh_dot_self_att' projects to 8 channels, but attention in fairseq's transformer has the",
    ),
    "a window": (
        ENCODER.replace("self_att", "self_att(window=3)"),
        DECODER,
        {},
        "'mh_dot_self_att' has window=3, which is not exported to fairseq's transformer: omit",
    ),
    "shared heads": (
        ENCODER,
        DECODER.replace("src_att", "src_att(kv_heads=2)"),
        {},
        "'mh_dot_src_att' has kv_heads=2, which is not exported to fairseq's transformer: omit",
    ),
    "normalized queries": (
        ENCODER,
        DECODER.replace("src_att", "src_att(qk_norm=true)"),
        {},
        "'mh_dot_src_att' has qk_norm=true, which is not exported to fairseq's transformer: omit",
    ),
    "relative positions": (
        ENCODER,
        DECODER.replace("self_att", "self_att(pos=rope)"),
        {},
        "'mh_dot_self_att' has pos=rope, which is not exported to fairseq's transformer: omit",
    ),
    "relative positions of the source": (
        ENCODER,
        DECODER.replace("src_att", "src_att(pos=rope)"),
        {},
        "'mh_dot_src_att' has pos=rope, which is not exported to fairseq's transformer: omit",
    ),
    "another activation": (
        ENCODER.replace("ffl", "ff(d=8, v=sigmoid) -> linear"),
        DECODER,
        {},
        "fairseq's transformer has no non-linearity sigmoid: it has relu, gelu, swish, tanh, none",
    ),
    "two activations": (
        ENCODER.replace("ffl", "ff(d=8, v=gelu) -> linear"),
        DECODER,
        {},
        "the non-linearity of 'ff' is relu here and gelu in the encoder, but fairseq's",
    ),
    "two scales": (
        ENCODER,
        DECODER.replace("pos", "learn_pos"),
        {},
        "'learn_pos' scales embeddings on one side only, but fairseq's transformer scales them",
    ),
    "input feeding": (
        ENCODER,
        f"linear(16) -> {DECODER}",
        {"input_feeding": True},
        "The model has --input-feeding, which fairseq's transformer does not have",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_layer_in_the_way(name):
    encoder, decoder, options, message = REFUSED[name]
    _, checkpoint = model_and_checkpoint(encoder, decoder, options)
    with pytest.raises(UserError) as error:
        export_transformer(checkpoint)
    assert message in str(error.value)


def test_other_models_are_refused():
    with pytest.raises(UserError, match="x.pt has a model of --arch convs2s_iwslt_de_en"):
        export_transformer(Checkpoint("x.pt", {}, {"_name": "convs2s_iwslt_de_en"}, {}))
