"""``layers``: time of the layers of the language beside multi-head self-attention, in a decoder."""

import argparse

import torch
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.context import Context, Source
from convs2s.models.adl.stacks import DecoderStack
from convs2s.nn.state import State

from .machine import machine
from .measure import alternate, ratios, summary
from .options import add_numbers

PEER = "mh_dot_self_att"
LAYERS = (
    *("ssru", "min_gru", "min_lstm", "rg_lru", "qrnn", "rnn(gru)", "light_conv(k=7)"),
    *("dynamic_conv(k=7)", "gla", "retention", "retention(d_v=512)", "mamba2", "ema", "cnn"),
)
# Sentences and their tokens.
SIZES = (64, 25), (8, 200)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``layers``."""
    text = f"definitions to measure (default: {', '.join(LAYERS)})"
    parser.add_argument("layers", metavar="DEFINITION", nargs="*", help=text)
    add_numbers(parser, channels=512, beam=5, rounds=9)


def run(args: argparse.Namespace) -> dict:
    """Measure each layer in turn with the others.

    Returns:
        The time of a training step, and that of a step of beam search with its reordering, relative
        to those of PEER in the same round.
    Raises:
        UserError: a definition changes the number of channels.
    """
    settings = Settings(model_dim=args.channels, dropout=0.0)
    stacks = {}
    for text in (PEER, *(args.layers or LAYERS)):
        spec = resolve("id", text, settings).decoder
        if spec.width != args.channels:
            raise UserError(f"'{text}' has {spec.width} channels, not {args.channels}.")
        stacks[text] = DecoderStack(spec)
    found: dict[str, dict[str, list[dict]]] = {"training step": {}, "beam step": {}}
    for sentences, length in SIZES:
        x = torch.randn(sentences, length, args.channels, requires_grad=True)
        hypotheses = torch.randn(sentences * args.beam, length, args.channels)
        for work, timed in (
            ("training step", {text: _training(stack, x) for text, stack in stacks.items()}),
            (
                "beam step",
                {text: _search(stack, hypotheses, args.beam) for text, stack in stacks.items()},
            ),
        ):
            times = alternate(timed, args.rounds)
            for text, seconds in times.items():
                found[work].setdefault(text, []).append(summary(ratios(seconds, times[PEER])))
    return {
        "machine": machine("cpu"),
        "channels": args.channels,
        "beam": args.beam,
        "sizes": SIZES,
        "relative_to_attention": found,
    }


def _training(stack: DecoderStack, x: Tensor):
    """A forward and a backward pass over all positions."""
    grad = torch.randn_like(x)
    context = Context(torch.arange(x.size(1)), x.size(1))

    def step() -> None:
        torch.autograd.grad(stack.apply_layers(x, context), [x, *stack.parameters()], grad)

    return step


def _search(stack: DecoderStack, x: Tensor, beam: int):
    """All steps of a beam search, whose hypotheses change places after each."""
    rows, length, _ = x.shape
    tokens, padding = torch.zeros(rows, length, dtype=torch.long), torch.zeros(rows, length).bool()
    groups = torch.arange(0, rows, beam)[:, None]
    orders = [(groups + torch.randint(0, beam, (rows // beam, beam))).flatten() for _ in range(5)]

    @torch.no_grad()
    def search() -> None:
        state, source = State(), Source({}, beam_size=beam)
        for step in range(length):

            def embed(tokens: Tensor, padding_mask: Tensor, start: int, step: int = step) -> Tensor:
                return x[:, step : step + 1]

            stack(embed, tokens[:, : step + 1], padding[:, : step + 1], source, state)
            state.length += 1
            state.reorder_(orders[step % len(orders)])

    return search
