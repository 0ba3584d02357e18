"""The small networks and the sentences that the figures show at work."""

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from convs2s.models.adl.network import AdlNetwork
from convs2s.models.adl.options import AdlOptions
from convs2s.models.convs2s.network import ConvS2S
from convs2s.models.convs2s.options import ConvS2SOptions
from convs2s.models.interface import Network, Vocabularies
from convs2s.models.options import NetworkOptions
from convs2s.models.pervasive.network import Pervasive
from convs2s.models.pervasive.options import PervasiveOptions

PAIRS = (
    ("ein hund läuft im park . </s>", "a dog is running in the park . </s>"),
    ("zwei katzen schlafen . </s>", "two cats are sleeping . </s>"),
    ("es regnet . </s>", "it is raining . </s>"),
)
# The model in ADL.
ENCODER = "pos -> res_nd(birnn) -> norm"
DECODER = "pos -> res_nd(mh_dot_self_att) -> res_nd(mh_dot_src_att) -> res_nd(cnn(glu)) -> norm"


class Family(NamedTuple):
    """A small network of a family.

    Attributes:
        network: its class.
        options: its options.
        sizes: what its sizes are called, and in a search those that differ there.
    """

    network: Callable[[Any, Vocabularies], Network]
    options: NetworkOptions
    sizes: dict[str, int]
    in_search: dict[str, int] = {}


# Sizes that differ say which is which.
FAMILIES = {
    "convs2s": Family(
        ConvS2S,
        ConvS2SOptions(
            encoder_embed_dim=16,
            decoder_embed_dim=16,
            decoder_out_embed_dim=16,
            encoder_layers="[(24, 3)] * 2",
            decoder_layers="[(24, 3)] * 2",
            dropout=0.0,
        ),
        {"E": 16, "C": 24, "(k - 1)": 2},
    ),
    "pervasive": Family(
        Pervasive,
        PervasiveOptions(
            encoder_embed_dim=22,
            decoder_embed_dim=22,
            num_layers=6,
            growth_rate=8,
            kernel_size=5,
            dropout=0.0,
        ),
        {"cells": 113, "E": 22, "H": 32, "g": 8, "L": 6, "(E + L g)": 70, "C": 35}
        | {"(T + P - 1)": 11},
        {"cells": 64, "E": 22, "g": 8, "C": 35, "L": 6, "(P - 1)": 2},
    ),
    "adl": Family(
        AdlNetwork,
        AdlOptions(
            encoder_adl=ENCODER,
            decoder_adl=DECODER,
            model_dim=40,
            attention_heads=4,
            dropout=0.0,
        ),
        {"C": 40, "h": 4, "(C / h)": 10, "(k - 1)": 2},
    ),
}


class Batch(NamedTuple):
    """The sentence pairs as a batch.

    Attributes:
        source: B x S tokens, padded on the right, as the others are.
        previous: B x T, the previous target tokens.
        target: B x T, the tokens to predict.
        vocabularies: of the network.
    """

    source: Tensor
    previous: Tensor
    target: Tensor
    vocabularies: Vocabularies


def batch() -> Batch:
    """The batch of ``PAIRS``."""
    pad, eos = Vocabularies._field_defaults["pad"], Vocabularies._field_defaults["eos"]
    sides = []
    for side in (0, 1):
        words = dict.fromkeys(chain(*(pair[side].split()[:-1] for pair in PAIRS)))
        numbers = {"</s>": eos, **{word: 4 + number for number, word in enumerate(words)}}
        rows = [torch.tensor([numbers[word] for word in pair[side].split()]) for pair in PAIRS]
        tokens = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=pad)
        sides.append((tokens, 4 + len(words)))
    (source, of_source), (target, of_target) = sides
    previous = target.roll(1, dims=1).masked_fill(target.eq(pad), pad)
    previous[:, 0] = eos
    return Batch(source, previous, target, Vocabularies(of_source, of_target))


def build(family: str) -> Network:
    """The small network of a family, in evaluation mode."""
    torch.manual_seed(1)
    return FAMILIES[family].network(FAMILIES[family].options, batch().vocabularies).eval()
