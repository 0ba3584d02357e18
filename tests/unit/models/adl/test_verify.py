"""``convs2s adl verify`` for the layers of the package: the tables of docs/language.md."""

import json

import pytest
import torch

from convs2s.models.adl.architectures import NAMED
from convs2s.models.adl.language.spec import DECODER, ENCODER
from convs2s.models.adl.options import AdlOptions
from convs2s.models.adl.verify import PROPERTIES, faults, shown, verify
from convs2s.nn import recent_positions
from docs import proofs

LAYERS = proofs.layers()
# A deviation that is this many powers of ten above that of the page is not one of another machine.
MORE = 2


@pytest.fixture(scope="module")
def on_the_page():
    return json.loads(proofs.FILE.read_text(encoding="utf-8"))


def test_every_layer_has_been_measured_on_each_side_where_it_is_allowed(on_the_page):
    assert [*on_the_page] == LAYERS, "run `python docs/proofs.py`"
    for name, sides in on_the_page.items():
        assert [*sides] == [side for side in proofs.SIDES if any(proofs.resolved(name, side))]
        for side, found in sides.items():
            assert [*found] == [each.name for each in PROPERTIES if side in each.sides], name
            for each in PROPERTIES:
                power = found.get(each.name)
                assert power is None or 10.0 ** (power - 1) <= each.bound, (name, side, each.name)


@pytest.mark.parametrize("name", LAYERS[::7])
def test_a_sample_is_measured_again(name, on_the_page):
    for side, stated in on_the_page[name].items():
        measured = proofs.measure(name, side)
        if "int8" not in measured:
            stated.pop("int8")
        assert [*measured] == [*stated]
        for what, power in measured.items():
            bound = next(each.bound for each in PROPERTIES if each.name == what)
            if power is None or not bound:
                assert stated[what] == power or bound
            else:
                # Where the page has 0, rounding of another machine is as small as any.
                assert power <= (stated[what] or -6) + MORE, (name, side, what)


@pytest.mark.parametrize("name", ["retention", "mamba2", "gla"])
def test_states_after_few_positions(name, monkeypatch):
    """What holds while keys and values are cached also holds with states."""
    for limit in ("RECENT", "RECENT_OF_CHANNELS"):
        monkeypatch.setattr(recent_positions, limit, 2)
    options = AdlOptions(
        encoder_adl="pos -> linear",
        decoder_adl=f"pos -> res({name} -> dropout) -> res(dot_src_att) -> res({name})",
        model_dim=16,
        ff_dim=16,
        attention_heads=2,
    )
    assert faults(verify(options, options.resolve(), 9)) == []


def test_a_layer_whose_heads_have_one_channel_of_keys():
    """Its decays are those of heads, so its chunks are longer."""
    options = AdlOptions(
        encoder_adl="pos -> gla(h=4, d_k=4)", decoder_adl="dot_src_att", model_dim=16
    )
    assert faults(verify(options, options.resolve(), 9)) == []


def test_a_layer_is_measured_with_every_choice():
    assert [*proofs.definitions("linear")] == [
        *("linear", "linear(d=2)", "linear(bias=true)", "linear(bias=false)")
    ]
    assert {"rnn", "rnn(cell=lngru)", "rnn(d=2)"} < {*proofs.definitions("rnn")}
    assert [*proofs.definitions("res")] == ["res(chain=cnn)", "res(chain=rnn)"]
    assert [*proofs.definitions("sum")] == ["sum(cnn, rnn)"]
    causal = [text for text, _ in proofs.resolved("light_conv", DECODER)]
    assert causal == ["light_conv", *(f"light_conv({a})" for a in ("k=2", "h=2", "padding=causal"))]
    assert [*proofs.resolved("birnn", DECODER)] == [*proofs.resolved("mlp_att", ENCODER)] == []


@pytest.mark.parametrize("name", ["adl_convs2s", "adl_rnmt", "adl_self_att_combined"])
def test_named_architectures(name):
    options = {**NAMED[name].as_options().options, "model_dim": 16, "attention_heads": 4}
    options = AdlOptions(**options)
    assert faults(verify(options, options.resolve(), 30)) == []


def test_random_numbers_of_the_caller_stay_as_they_are():
    before = torch.get_rng_state()
    options = proofs.options_of("rnn", DECODER)
    first, second = ([*verify(options, options.resolve(), 30)] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert first == second


def test_numbers_of_the_table():
    numbers = [0, 3.26e-16, 1e-9, 0.0301, 0.3, 12.34, 269, 123456, float("inf")]
    expected = ["0", "3.3e-16", "1e-9", "0.03", "0.3", "12", "269", "123,456", "inf"]
    assert [*map(shown, numbers)] == expected
