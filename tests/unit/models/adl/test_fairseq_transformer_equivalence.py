"""adl_transformer against fairseq's own transformer: the same weights give the same numbers."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from tests.support.adapters import dictionary, tiny_adl, translation_task
from tests.support.batches import loss_of_logits, random_batch

LAYERS, DIM, HEADS = 6, 16, 4
LENGTHS = [(7, 5), (3, 9), (11, 2), (1, 1)]


def fairseq_transformer():
    """fairseq's pre-norm transformer with random weights, without biases in attention."""
    torch.manual_seed(1)
    args = Namespace(
        encoder_embed_dim=DIM,
        encoder_ffn_embed_dim=4 * DIM,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        share_all_embeddings=True,
        dropout=0.0,
        max_source_positions=64,
        max_target_positions=64,
    )
    ARCH_CONFIG_REGISTRY["transformer"](args)
    model = ARCH_MODEL_REGISTRY["transformer"].build_model(args, translation_task())
    for name, parameter in model.named_parameters():
        if "attn" in name and name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
        elif "norm" in name or name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.3)
    return model.double().eval()


def converted(theirs):
    """The state dict of our model, from the weights of fairseq's."""
    found = {}

    def copy(name, module):
        for kind, value in module.named_parameters():
            found[f"{name}.{kind}"] = value

    def joined(*modules):
        return torch.cat([module.weight for module in modules])

    for side in ("encoder", "decoder"):
        stack = getattr(theirs, side)
        number = 1
        for layer in stack.layers:
            attention = layer.self_attn
            at = f"{side}.layers.{number}.chain"
            copy(f"{at}.0.norm", layer.self_attn_layer_norm)
            parts = (attention.q_proj, attention.k_proj, attention.v_proj)
            found[f"{at}.1.queries_keys_values.weight"] = joined(*parts)
            found[f"{at}.1.output.weight"] = attention.out_proj.weight
            number += 1
            if side == "decoder":
                attention = layer.encoder_attn
                at = f"{side}.layers.{number}.chain"
                copy(f"{at}.0.norm", layer.encoder_attn_layer_norm)
                found[f"{at}.1.queries.weight"] = attention.q_proj.weight
                found[f"{at}.1.keys_values.weight"] = joined(attention.k_proj, attention.v_proj)
                found[f"{at}.1.output.weight"] = attention.out_proj.weight
                number += 1
            at = f"{side}.layers.{number}.chain"
            copy(f"{at}.0.norm", layer.final_layer_norm)
            copy(f"{at}.1.linear", layer.fc1)
            copy(f"{at}.2.linear", layer.fc2)
            number += 1
        copy(f"{side}.layers.{number}.norm", stack.layer_norm)
        found[f"{side}.embed.words.weight"] = stack.embed_tokens.weight
    found["decoder.output.words.weight"] = theirs.encoder.embed_tokens.weight
    found["decoder.output.bias"] = torch.zeros(len(dictionary()))
    return {name: value.detach().clone() for name, value in found.items()}


@pytest.fixture(scope="module")
def both():
    theirs = fairseq_transformer()
    ours = tiny_adl(model_dim=DIM, attention_heads=HEADS, share_all_embeddings=True).double()
    ours.load_state_dict(converted(theirs))
    # In fairseq, all sines precede all cosines, and positions begin after the padding index.
    positions = theirs.encoder.embed_positions
    positions(torch.full((1, 64), 5))
    table = getattr(positions, "weights", getattr(positions, "weight", None))
    for side in (ours.encoder, ours.decoder):
        side.layers[0].table = table[dictionary().pad() + 1 :].double()
    return ours, theirs


@pytest.mark.parametrize("left_pad_source", [True, False])
def test_outputs_loss_and_gradients(both, left_pad_source):
    ours, theirs = both
    batch = random_batch(LENGTHS, left_pad_source)
    real = batch["net_input"]["prev_output_tokens"].ne(dictionary().pad())
    logits = [model(**batch["net_input"])[0] for model in both]
    torch.testing.assert_close(logits[0][real], logits[1][real], atol=1e-5, rtol=1e-5)
    losses = [loss_of_logits(scores, batch) for scores in logits]
    torch.testing.assert_close(*losses, atol=1e-5, rtol=1e-5)
    tables = [ours.decoder.embed.words.weight, theirs.decoder.embed_tokens.weight]
    gradients = [torch.autograd.grad(*pair)[0] for pair in zip(losses, tables)]
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("layer", "heads"), [(0, 1), (2, 3), (LAYERS - 1, None)])
def test_alignments_of_a_layer_and_its_heads(both, layer, heads):
    batch = random_batch(LENGTHS)["net_input"]
    real = batch["prev_output_tokens"].ne(dictionary().pad())
    options = dict(alignment_layer=layer, alignment_heads=heads)
    ours, theirs = (model(**batch, **options)[1]["attn"][0][real] for model in both)
    torch.testing.assert_close(ours, theirs.double(), atol=1e-5, rtol=1e-5)


def test_parameters_are_as_many_but_for_biases(both):
    ours, theirs = both
    # Some versions hold weights twice, for kernels that training does not use.
    theirs.zero_grad()
    batch = random_batch(LENGTHS)
    loss_of_logits(theirs.train()(**batch["net_input"])[0], batch).backward()
    used = {name: p.numel() for name, p in theirs.eval().named_parameters() if p.grad is not None}
    biases = {name for name in used if "attn." in name and name.endswith("bias")}
    assert len(biases) == 3 * LAYERS * 4
    count = sum(value.numel() for value in ours.parameters()) - len(dictionary())
    assert count == sum(numel for name, numel in used.items() if name not in biases)
