"""Converted models of fairseq's LightConv and DynamicConv compute what they computed there."""

from argparse import Namespace

import pytest
import torch

from convs2s.checkpoints.legacy.lightconv import convert_checkpoint
from convs2s.checkpoints.networks import Checkpoint, build_network
from convs2s.common.errors import UserError
from tests.support.commands import NEEDS_FAIRSEQ

pytestmark = NEEDS_FAIRSEQ

WORDS, PAD, EOS = 19, 1, 2
SIZES = {
    "arch": "lightconv",
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 20,
    "encoder_attention_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_kernel_size_list": [3, 5],
    "decoder_kernel_size_list": [3, 7],
    "encoder_conv_type": "dynamic",
    "decoder_conv_type": "dynamic",
    "weight_softmax": True,
    "max_source_positions": 30,
    "max_target_positions": 25,
    "left_pad_source": False,
}
OPTIONS = {
    "dynamic": {},
    "lightweight": {"encoder_conv_type": "lightweight", "decoder_conv_type": "lightweight"},
    "mixed": {"decoder_conv_type": "lightweight", "encoder_glu": False, "input_dropout": 0.0},
    "pre-norm": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "tied": {"share_decoder_input_output_embed": True},
    "shared": {"share_all_embeddings": True, "decoder_glu": False},
    "widths": {"encoder_conv_dim": 24, "decoder_conv_dim": 8, "decoder_ffn_embed_dim": 12},
    "heads": {"decoder_attention_heads": 2},
}


def fairseq_model(**changes):
    """A model of fairseq with random weights, and its options."""
    from fairseq.data import Dictionary
    from fairseq.models.lightconv import LightConvModel, base_architecture

    options = Namespace(**{**SIZES, **changes})
    base_architecture(options)
    words = Dictionary()
    for number in range(WORDS - len(words)):
        words.add_symbol(str(number))
    torch.manual_seed(1)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = LightConvModel.build_model(options, task)
    for name, parameter in model.named_parameters():
        if "embed_tokens" not in name:
            torch.nn.init.normal_(parameter, 0.5 if "norm" in name else 0.0, 0.3)
    return model.eval(), options


def old_content(model, options):
    """The content of a checkpoint."""
    return {"args": options, "model": model.state_dict()}


def converted(content):
    """The converted model, ready to translate."""
    new = convert_checkpoint(content, "old.pt")
    options = vars(new["args"])
    return build_network(Checkpoint("new.pt", new, {**options, "_name": "adl"}, {}))


def batch():
    torch.manual_seed(2)
    source, target = torch.randint(4, WORDS, (3, 9)), torch.randint(4, WORDS, (3, 8))
    target[:, 0] = EOS
    source[1, 6:] = source[2, 4:] = PAD
    return source, target


def assert_same(content, model):
    source, target = batch()
    lengths = source.ne(PAD).sum(dim=1)
    with torch.no_grad():
        expected = model(source, lengths, target)[0]
        actual = converted(content)(source, target)
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_outputs(name):
    model, options = fairseq_model(**OPTIONS[name])
    assert_same(old_content(model, options), model)


def test_the_layout_of_2019():
    """One matrix for the projections of attention, other names for norms and the output layer."""
    model, options = fairseq_model()
    weights = model.state_dict()
    for layer in range(2):
        name = f"decoder.layers.{layer}.encoder_attn"
        for kind in ("weight", "bias"):
            parts = [weights.pop(f"{name}.{part}_proj.{kind}") for part in "qkv"]
            weights[f"{name}.in_proj_{kind}"] = torch.cat(parts)
            for norm in (1, 2):
                weight = weights.pop(f"encoder.layers.{layer}.layer_norm{norm}.{kind}")
                weights[f"encoder.layers.{layer}.layer_norms.{norm - 1}.{kind}"] = weight
    weights["decoder.embed_out"] = weights.pop("decoder.output_projection.weight")
    weights["encoder.embed_positions._float_tensor"] = torch.zeros(1)
    assert_same({"args": options, "model": weights}, model)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight_softmax": False}, "not normalized with a softmax (--weight-softmax)"),
        ({"decoder_embed_dim": 8}, "--decoder-embed-dim is 8"),
        ({"encoder_conv_type": "other"}, "an unknown type, other"),
        ({"adaptive_softmax_cutoff": "1,2"}, "an adaptive softmax (--adaptive-softmax-cutoff)"),
        ({"max_source_positions": 10**10}, "--max-source-positions is 10000000000, but must be"),
        ({"encoder_embed_dim": 2}, "--encoder-embed-dim is 2, but must be from 4"),
        ({"arch": "lightconv_lm"}, "--arch lightconv_lm, but only translation models"),
        ({"arch": "transformer"}, "--arch transformer, but only translation models"),
    ],
)
def test_networks_without_a_definition(changes, message):
    model, options = fairseq_model()
    content = old_content(model, Namespace(**{**vars(options), **changes}))
    with pytest.raises(UserError) as error:
        convert_checkpoint(content, "old.pt")
    assert message in str(error.value) and str(error.value).startswith("old.pt ")


@pytest.mark.parametrize("name", ["decoder.layers.1.fc2.bias", "encoder.embed_tokens.weight"])
def test_a_missing_weight_is_named(name):
    model, options = fairseq_model()
    content = old_content(model, options)
    del content["model"][name]
    with pytest.raises(UserError, match=f"The weight '{name}' of fairseq's lightconv is missing"):
        convert_checkpoint(content, "old.pt")


def test_a_weight_of_another_network_is_named():
    model, options = fairseq_model()
    content = old_content(model, options)
    content["model"]["encoder.layers.0.conv.weight_linear.bias"] = torch.zeros(12)
    with pytest.raises(UserError, match="'encoder.layers.0.conv.weight_linear.bias' is not a"):
        convert_checkpoint(content, "old.pt")
