"""The work that is timed: fairseq's own criterion and generator on random sentences."""

from argparse import Namespace
from typing import Callable, Dict, List

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model
from fairseq.sequence_generator import SequenceGenerator

import convs2s_plugin  # noqa: F401  (registers the architectures)
from convs2s_plugin.errors import UserError

LABEL_SMOOTHING = 0.1
DROPOUT = 0.1


def random_dictionary(words: int) -> Dictionary:
    """A dictionary with so many types, fairseq's special symbols included."""
    symbols = Dictionary()
    for number in range(words - len(symbols)):
        symbols.add_symbol(f"w{number}")
    return symbols


def build(arch: str, symbols: Dictionary) -> torch.nn.Module:
    """A model of any registered architecture with its defaults and random weights.

    Raises:
        UserError: where no such architecture is registered.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        raise UserError(f"There is no architecture {arch}; `fairseq-train --help` lists all.")
    torch.manual_seed(1)
    args = Namespace(
        arch=arch,
        _name=arch,
        dropout=DROPOUT,
        attention_dropout=0.0,
        max_source_positions=1024,
        max_target_positions=1024,
    )
    ARCH_CONFIG_REGISTRY[arch](args)
    task = Namespace(source_dictionary=symbols, target_dictionary=symbols)
    return build_model(args, task)


def random_batch(symbols: Dictionary, sentences: int, length: int) -> Dict:
    """A batch of sentences of one length on both sides, as fairseq's data sets make it."""
    generator = torch.Generator().manual_seed(1)
    size = (sentences, length - 1)
    end = torch.full((sentences, 1), symbols.eos())
    source, target = (
        torch.cat(
            [torch.randint(symbols.nspecial, len(symbols), size, generator=generator), end], dim=1
        )
        for _ in range(2)
    )
    return {
        "id": torch.arange(sentences),
        "nsentences": sentences,
        "ntokens": sentences * length,
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((sentences,), length),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


def training(arch: str, symbols: Dictionary, batch: Dict) -> Callable[[], None]:
    """Forward, loss and backward of one batch."""
    model = build(arch, symbols).train()
    criterion = LabelSmoothedCrossEntropyCriterion(
        Namespace(target_dictionary=symbols), sentence_avg=False, label_smoothing=LABEL_SMOOTHING
    )

    def step() -> None:
        model.zero_grad()
        loss, _, _ = criterion(model, batch)
        loss.backward()

    return step


def generation(arch: str, symbols: Dictionary, batch: Dict, beam: int) -> Callable[[], List]:
    """Beam search of exactly as many words as the sources have."""
    model = build(arch, symbols).eval()
    model.make_generation_fast_(beamable_mm_beam_size=beam, need_attn=False)
    steps = batch["target"].size(1)
    generator = SequenceGenerator(
        [model], symbols, beam_size=beam, min_len=steps - 1, max_len_b=steps - 1
    )
    return lambda: generator.generate([model], batch)
