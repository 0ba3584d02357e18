"""The attention of every layer and head: plain computations, the search, and threads."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from convs2s.models.adl.layers.multi_head_attention import MultiHeadAttentionLayer
from convs2s.models.convs2s.multi_step_attention import MultiStepAttention
from convs2s.nn.attention import (
    CONTRIBUTIONS,
    DECODER,
    ENCODER,
    SOURCE,
    record_attention,
)
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from tests.support.batches import PAD, random_batch
from tests.support.families import MODELS, make, outputs, tiny_adl, tiny_convs2s, tiny_pervasive

EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
LENGTHS = [(7, 5), (3, 9), (11, 2)]
SELF = "mh_dot_self_att"


def close(actual, expected):
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def maps_of(model, batch):
    net_input = batch["net_input"]
    return model.attention_maps(
        net_input["src_tokens"], net_input["prev_output_tokens"], batch["target"]
    )


def inputs_of(model, kind):
    """A list to which each forward pass adds the arguments of each module of a class."""
    calls = []
    for module in model.modules():
        if isinstance(module, kind):
            module.register_forward_pre_hook(lambda *call: calls.append(call))
    return calls


@EVERY_MODEL
@pytest.mark.parametrize("left_pad", [True, False])
@torch.no_grad()
def test_the_mean_is_the_attention_that_the_model_returns(name, left_pad):
    model = make(name).double()
    batch = random_batch(LENGTHS, left_pad, left_pad)
    maps = maps_of(model, batch)
    _, attention = outputs(model, batch["net_input"], target_tokens=batch["target"])
    close(maps.mean(), attention)


@EVERY_MODEL
@pytest.mark.parametrize("left_pad", [True, False])
@torch.no_grad()
def test_maps_do_not_depend_on_the_batch_or_padding(name, left_pad):
    model = make(name).double()
    batch = random_batch(LENGTHS, left_pad, left_pad)
    together = maps_of(model, batch)
    for i in range(len(LENGTHS)):
        source, prefix = (
            batch["net_input"][key][i : i + 1] for key in ("src_tokens", "prev_output_tokens")
        )
        positions = {"source": source[0].ne(PAD), "target": prefix[0].ne(PAD)}
        target = batch["target"][i : i + 1, positions["target"]]
        alone = model.attention_maps(
            source[:, positions["source"]], prefix[:, positions["target"]], target
        )
        assert [found.name for found in alone] == [found.name for found in together]
        for one, all_of_them in zip(alone, together):
            queries = positions["source" if one.kind == ENCODER else "target"]
            keys = positions["target" if one.kind == DECODER else "source"]
            weights = all_of_them.weights[i][:, queries]
            close(weights[..., keys], one.weights[0])
            assert not weights[..., ~keys].any()
            if one.kind != CONTRIBUTIONS:
                close(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))
            if one.kind == DECODER:
                assert not one.weights.triu(1).any()


@EVERY_MODEL
@torch.no_grad()
def test_maps_of_the_search_are_those_of_the_whole_sentence(name):
    """Token by token, with two hypotheses for each sentence that change places once."""
    model = make(name).double()
    batch = random_batch([(7, 6), (4, 6)])
    expected = maps_of(model, batch)
    source, prefix = (batch["net_input"][key] for key in ("src_tokens", "prev_output_tokens"))
    spread = BeamOrder(torch.tensor([0, 0, 1, 1]), 1)
    encoded = reorder_encoder_output(model.encode(source), spread)
    # The second hypothesis of each sentence is another sentence until it becomes the first one.
    tokens = torch.stack([prefix, prefix.flip(1)], dim=1).flatten(0, 1)
    target = batch["target"].repeat_interleave(2, dim=0)
    state, steps = State(), []
    for seen in range(1, 7):
        if seen == 4:
            order = torch.tensor([1, 0, 3, 2])
            state.reorder_(order)
            tokens = tokens[order]
        with record_attention() as maps:
            model.decode(tokens[:, :seen], encoded, state, target_tokens=target[:, :seen])
        assert {found.kind for found in maps} <= {SOURCE, CONTRIBUTIONS}
        rows = slice(0, None, 2) if seen < 4 else slice(1, None, 2)
        steps.append({found.name: found.weights[rows] for found in maps.of_kind(SOURCE)})
    for found in expected.of_kind(SOURCE):
        close(torch.cat([step[found.name] for step in steps], dim=2), found.weights)


@torch.no_grad()
def test_convs2s_layers_against_section_3_3():
    model = tiny_convs2s(decoder_attention="[True, False, True]").double()
    batch = random_batch(LENGTHS)
    maps = maps_of(model, batch)
    assert [found.name for found in maps] == ["source.1", "source.3"]
    assert [found.description for found in maps] == ["decoder layer 1", "decoder layer 3"]
    calls = inputs_of(model, MultiStepAttention)
    outputs(model, batch["net_input"])
    padding = batch["net_input"]["src_tokens"].eq(PAD)
    for (module, (x, embedding, source, *_)), found in zip(calls, maps, strict=True):
        # d_i = W h_i + b + g_i, and a_ij is the softmax over j of d_i z_j.
        query = (module.query(x) + embedding) * math.sqrt(0.5)
        scores = torch.einsum("bte,bse->bts", query, source.keys)
        expected = scores.masked_fill(padding.unsqueeze(1), -math.inf).softmax(dim=-1)
        close(found.weights, expected.unsqueeze(1))


@pytest.mark.parametrize("input_feeding", [False, True])
@torch.no_grad()
def test_adl_heads_against_section_2_3(input_feeding):
    width = "linear(16) -> " if input_feeding else ""
    model = tiny_adl(
        arch="adl",
        encoder_adl=f"pos -> repeat(2, res_nd({SELF}))",
        decoder_adl=f"{width}repeat(2, res_nd({SELF}) -> res_nd(mh_dot_src_att(h=2)))",
        input_feeding=input_feeding,
    ).double()
    batch = random_batch([(7, 5), (7, 5)])
    maps = maps_of(model, batch)
    names = ["encoder.1", "encoder.2", "decoder.1", "source.1", "decoder.2", "source.2"]
    assert [found.name for found in maps] == names
    assert {found.description for found in maps} == {SELF, "mh_dot_src_att"}
    if input_feeding:
        return
    calls = inputs_of(model, MultiHeadAttentionLayer)
    outputs(model, batch["net_input"])
    for (module, (x, context)), found in zip(calls, maps, strict=True):
        if found.kind == SOURCE:
            query, key = module.queries(x), module.keys_values(context.source.blocks[2])
        else:
            query, key = x @ module.queries_keys_values.weight[:16].T, None
            key = x @ module.queries_keys_values.weight[16:32].T
        heads, size = module.heads, 16 // module.heads
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[..., part] @ key[..., part].transpose(1, 2) / math.sqrt(size)
            if found.kind == DECODER:
                scores = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf)
            close(found.weights[:, head], scores.softmax(dim=-1))


@pytest.mark.parametrize("aggregator", ["max", "avg", "attn", "max+attn"])
@pytest.mark.parametrize("separate_output", [True, False])
@torch.no_grad()
def test_pervasive_maps_against_equations_6_to_9(aggregator, separate_output):
    model = tiny_pervasive(aggregator=aggregator, separate_output=separate_output).double()
    batch = random_batch([(6, 4)])
    maps = maps_of(model, batch)
    parts = aggregator.split("+")
    names = [f"{kind}.{part}" for kind in (SOURCE, CONTRIBUTIONS) for part in parts]
    assert [found.name for found in maps] == names
    network, output = model.decoder.network, model.decoder.output
    caught = []
    network.aggregator.register_forward_pre_hook(lambda _, inputs: caught.append(inputs))
    logits, _ = outputs(model, batch["net_input"], need_weights=False)
    ((cells, grid),) = caught
    features = grid.unpack(cells)[0]
    vectors, bias = output.weight_and_bias(batch["target"].flatten())
    constant = bias
    if network.output is not None:
        constant = constant + vectors @ network.output.bias
        vectors = vectors @ network.output.weight
    by_part = dict(zip(parts, vectors.chunk(len(parts), dim=1)))
    found = {one.name: one.weights[0, 0] for one in maps}
    for part, weights in by_part.items():
        for i, j in ((i, j) for i in range(4) for j in range(6)):
            if part == "max":
                chosen = features[i].argmax(dim=0) == j
                expected = (weights[i] * features[i, j])[chosen].sum()
            elif part == "avg":
                expected = weights[i] @ features[i, j] / math.sqrt(6)
            else:
                attn = network.aggregator if aggregator == "attn" else network.aggregator.parts[1]
                rho = (features[i] @ attn.scores.weight[0] + attn.scores.bias).softmax(dim=0)
                close(found["source.attn"][i], rho)
                expected = math.sqrt(6) * rho[j] * (weights[i] @ features[i, j])
            close(found[f"contributions.{part}"][i, j], expected)
        if part != "attn":
            close(found[f"source.{part}"], found[f"contributions.{part}"].softmax(dim=-1))
    total = sum(found[f"contributions.{part}"] for part in parts).sum(dim=-1) + constant
    close(total, logits[0].gather(1, batch["target"].T).squeeze(1))


@EVERY_MODEL
def test_a_model_in_training_stays_so(name):
    model = make(name, dropout=0.5).train()
    model.encoder.embed.eval()
    batch = random_batch(LENGTHS)
    first, second = maps_of(model, batch), maps_of(model, batch)
    for one, other in zip(first, second, strict=True):
        close(one.weights, other.weights)
        assert not one.weights.requires_grad
    assert model.training and model.decoder.training and not model.encoder.embed.training


def test_a_decoder_without_attention_to_the_source_has_no_mean():
    model = tiny_adl(arch="adl", encoder_adl=SELF, decoder_adl=SELF)
    maps = maps_of(model, random_batch(LENGTHS))
    assert [found.name for found in maps] == ["encoder.1", "decoder.1"]
    assert maps.mean() is None


@EVERY_MODEL
@torch.no_grad()
def test_only_the_thread_that_records_gives_its_attention(name):
    model, batch = make(name), random_batch(LENGTHS)["net_input"]

    def attention():
        return outputs(model, batch, need_weights=False)[1]

    with record_attention() as maps, ThreadPoolExecutor(1) as other:
        assert other.submit(attention).result() is None and not maps
        assert attention() is not None and maps
    assert attention() is None
