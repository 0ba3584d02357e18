"""Single layers of ADL with random weights in float64, and what their formulas share."""

import torch

from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.context import Context
from convs2s.models.adl.layers.chains import LayerChain

C, S, T = 8, 6, 5
SETTINGS = Settings(model_dim=C, attention_heads=2, dropout=0.0, max_source_positions=16)


def built(text, side="encoder", source="id"):
    """The module of a definition of one layer, with random weights, in float64."""
    torch.manual_seed(1)
    definitions = (text, "id") if side == "encoder" else (source, text)
    layers = getattr(resolve(*definitions, SETTINGS), side).layers
    chain = LayerChain(layers).double().eval()
    for parameter in chain.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return chain.requires_grad_(False), chain[-1]


def random_input(length=T, sentences=3, channels=C, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(sentences, length, channels, dtype=torch.float64, generator=generator)


def context(x, **options):
    return Context(torch.arange(x.size(1)), x.size(1), **options)


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def norm(x, module):
    mean, variance = x.mean(), ((x - x.mean()) ** 2).mean()
    return module.weight * (x - mean) / (variance + 1e-6).sqrt() + module.bias


def check(chain, x, reference, given=None):
    """The output of the chain for each sentence equals that of the reference for it alone."""
    actual = chain(x, given or context(x))
    for row, sentence in zip(actual, x):
        expected = torch.stack(reference(list(sentence)))
        torch.testing.assert_close(row, expected, atol=1e-10, rtol=1e-10)
