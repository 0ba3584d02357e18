"""The work that is timed: training steps and beam search on random sentences."""

from argparse import Namespace
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY, build_model
from fairseq.sequence_generator import SequenceGenerator

import convs2s_plugin  # noqa: F401  (registers the architectures)
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.errors import UserError
from convs2s_plugin.models.base import PluginModel
from convs2s_plugin.tasks.precision import Precision

from . import plain_model  # noqa: F401  (registers a peer)

LABEL_SMOOTHING = 0.1
DROPOUT = 0.1
# Sentences and words of a batch that only warms up.
TINY = 2, 3


def random_dictionary(words: int) -> Dictionary:
    """A dictionary with so many types, fairseq's special symbols included."""
    symbols = Dictionary()
    for number in range(words - len(symbols)):
        symbols.add_symbol(f"w{number}")
    return symbols


class Setting(NamedTuple):
    """What is worked on.

    Attributes:
        arch: any registered architecture.
        words: types of both dictionaries.
        sentences: of a batch.
        length: words of each sentence, on both sides.
        layers: of the DenseNet, where the architecture has one; None for its own number.
        autocast_dtype: as the task's option.
        beam: hypotheses of a sentence, in generation.
    """

    arch: str
    words: int
    sentences: int
    length: int
    layers: Optional[int] = None
    autocast_dtype: str = "none"
    beam: int = 5


def build(setting: Setting, symbols: Dictionary) -> torch.nn.Module:
    """A model with its architecture's defaults and random weights.

    Raises:
        UserError: where no such architecture is registered.
    """
    arch = setting.arch
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
    if setting.layers is not None:
        args.num_layers = setting.layers
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


def training(setting: Setting) -> Tuple[Callable[[], None], Callable[[], None]]:
    """Forward, loss and backward: of a tiny batch, and of a whole one.

    This package's models have its criterion, others fairseq's; both give the same loss.
    """
    symbols = random_dictionary(setting.words)
    model = build(setting, symbols).train()
    precision = Precision(setting.autocast_dtype)
    ours = isinstance(model, PluginModel)
    criterion = (ConvS2SCrossEntropy if ours else LabelSmoothedCrossEntropyCriterion)(
        Namespace(target_dictionary=symbols), sentence_avg=False, label_smoothing=LABEL_SMOOTHING
    )

    def step(sentences: int, length: int) -> Callable[[], None]:
        batch = random_batch(symbols, sentences, length)

        def one() -> None:
            model.zero_grad()
            with precision.autocast(model):
                loss, _, _ = criterion(model, batch)
            loss.backward()

        return one

    return step(*TINY), step(setting.sentences, setting.length)


def generation(setting: Setting) -> Tuple[Callable[[], List], Callable[[], List]]:
    """Beam search of exactly as many words as the sources have: tiny sentences, and whole ones."""
    symbols = random_dictionary(setting.words)
    model = build(setting, symbols).eval()
    model.make_generation_fast_(beamable_mm_beam_size=setting.beam, need_attn=False)
    precision = Precision(setting.autocast_dtype)
    precision.cast_(model)

    def search(sentences: int, length: int) -> Callable[[], List]:
        batch = random_batch(symbols, sentences, length)
        generator = SequenceGenerator(
            [model], symbols, beam_size=setting.beam, min_len=length - 1, max_len_b=length - 1
        )

        def one() -> List:
            with precision.autocast(model):
                return generator.generate([model], batch)

        return one

    return search(*TINY), search(setting.sentences, setting.length)
