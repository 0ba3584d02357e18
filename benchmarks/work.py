"""The work that is timed: training steps and beam search."""

from argparse import Namespace
from collections.abc import Callable
from typing import NamedTuple

import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.sequence_generator import SequenceGenerator

from convs2s_plugin.base.model import PluginModel
from convs2s_plugin.criterions import ConvS2SCrossEntropy
from convs2s_plugin.decoding.candidates import Candidates
from convs2s_plugin.decoding.generator import TranslationGenerator
from convs2s_plugin.errors import UserError

from .sentences import sentences
from .setting import Setting, build

LABEL_SMOOTHING = 0.1
# Both give the same loss.
CRITERIA = {
    "convs2s_cross_entropy": ConvS2SCrossEntropy,
    "label_smoothed_cross_entropy": LabelSmoothedCrossEntropyCriterion,
}


class Work(NamedTuple):
    """Work on a tiny batch, after which all that is made once is there; work on whole batches.

    Attributes:
        parameters: of the model.
    """

    tiny: Callable[[], object]
    whole: Callable[[], object]
    parameters: int


def training(setting: Setting) -> Work:
    """Forward, loss and backward.

    This package's models have its criterion and others fairseq's, where the setting does not say.
    """
    data = sentences(setting, "train")
    model = build(setting, data.source, data.target).train()
    if setting.dtype == "half":
        model.half()
    precision = setting.precision
    ours = "convs2s_cross_entropy", "label_smoothed_cross_entropy"
    name = setting.criterion or ours[not isinstance(model, PluginModel)]
    criterion = CRITERIA[name](
        Namespace(target_dictionary=data.target),
        sentence_avg=False,
        label_smoothing=LABEL_SMOOTHING,
    )

    def steps(batches: list[dict]) -> Callable[[], None]:
        def one() -> None:
            for batch in batches:
                model.zero_grad()
                with precision.autocast(model):
                    loss, _, _ = criterion(model, batch)
                loss.backward()

        return one

    return Work(steps(data.tiny), steps(data.batches), _parameters(model))


def generation(setting: Setting) -> Work:
    """Beam search of exactly as many words as the longest source of a batch has.

    Raises:
        UserError: where there are more candidates than words.
    """
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()
    model.make_generation_fast_(beamable_mm_beam_size=setting.beam, need_attn=False)
    if setting.dtype == "half":
        model.half()
    precision = setting.precision
    precision.cast_(model)
    search = SequenceGenerator
    options = {}
    if setting.candidates is not None:
        search = TranslationGenerator
        candidates = frequent_candidates(len(data.source), len(data.target), setting.candidates)
        options = {"vocab_size": len(data.target), "candidates": candidates}

    def searches(batches: list[dict]) -> Callable[[], list]:
        prepared = []
        for batch in batches:
            longest = batch["net_input"]["src_tokens"].size(1) - 1
            lengths = {"min_len": longest, "max_len_b": longest}
            generator = search([model], data.target, beam_size=setting.beam, **lengths, **options)
            prepared.append((generator, batch))

        def one() -> list:
            with precision.autocast(model):
                return [generator.generate([model], batch) for generator, batch in prepared]

        return one

    return Work(searches(data.tiny), searches(data.batches), _parameters(model))


WORK = {"train": training, "generate": generation}


def frequent_candidates(source: int, target: int, number: int) -> Candidates:
    """As candidates from a lexicon, but for every batch the same words.

    Args:
        source, target: types of both dictionaries.
        number: of candidates.
    Raises:
        UserError: where there are not so many words.
    """
    if number > target:
        raise UserError(f"--candidates is {number}, but there are only {target:,} words.")
    # Every source word has one candidate, which is among the most frequent words.
    return Candidates(torch.zeros(source, 1, dtype=torch.long), torch.arange(target), number)


def _parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
