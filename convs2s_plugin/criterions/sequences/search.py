"""Candidates from a search with the current model, in the course of training."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from fairseq.models import FairseqEncoderDecoderModel
from fairseq.modules import FairseqDropout
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from convs2s.common.errors import UserError
from convs2s.nn.dropout import Dropout

# Longest candidates: this many times the longest reference of a batch, and a few tokens more.
# Longer ones would cost time, and cannot be good translations.
LENGTH_FACTOR = 1.5
MORE_TOKENS = 10


class CandidateSearch:
    """Finds candidates with the generator of a task.

    Args:
        task: the task, which builds the generator.
        number: number of candidates of each sentence.
        sampling: whether to draw them from the model instead of searching for the best ones.
        dropout: whether to apply dropout as in training.
    """

    def __init__(self, task: FairseqTask, number: int, sampling: bool, dropout: bool):
        self.task = task
        self.number = number
        self.sampling = sampling
        self.dropout = dropout
        # A generator searches with the models that it was built for, whichever ones it is given.
        self._generators: dict[tuple[nn.Module, bool], SequenceGenerator] = {}

    def __call__(self, model: nn.Module, sample: dict[str, Any]) -> list[list[Tensor]]:
        """The candidates of each sentence of a batch, the best ones first.

        In evaluation mode they come from a beam search without dropout, so that validations can be
        compared.

        Args:
            model: a translation model, perhaps in a wrapper for distributed training.
            sample: a batch of fairseq's LanguagePairDataset.
        Returns:
            For each sentence, the tokens of each candidate, with the end of the sentence; none if
            what the model computes is infinite or not a number.
        """
        inner, training = unwrapped(model), model.training
        inner.eval()
        try:
            with dropping_out(inner, training and self.dropout):
                found = self._search(inner, sample, training and self.sampling)
        except (AssertionError, RuntimeError, UserError):
            # Searches fail without probabilities. The loss will not be a number, which fairseq
            # reports after the backward pass.
            if _is_finite(inner, sample):
                raise
            found = [[] for _ in sample["target"]]
        finally:
            inner.train(training)
            # Autocast has kept casts of the weights without a graph.
            torch.clear_autocast_cache()
        return [
            [hypothesis["tokens"] for hypothesis in hypotheses if _is_possible(hypothesis)]
            for hypotheses in found
        ]

    def _search(
        self, model: FairseqEncoderDecoderModel, sample: dict[str, Any], sampling: bool
    ) -> list[list[dict[str, Any]]]:
        if (model, sampling) not in self._generators:
            options = Namespace(beam=self.number, sampling=sampling)
            self._generators[model, sampling] = self.task.build_generator([model], options)
        generator = self._generators[model, sampling]
        generator.max_len_b = int(LENGTH_FACTOR * sample["target"].size(1)) + MORE_TOKENS
        found: list[list[dict[str, Any]]] = self.task.inference_step(generator, [model], sample)
        return found


def unwrapped(model: nn.Module) -> FairseqEncoderDecoderModel:
    """The model inside wrappers for distributed training."""
    while isinstance(inner := getattr(model, "module", None), nn.Module):
        model = inner
    return model


@contextmanager
def dropping_out(model: nn.Module, active: bool) -> Iterator[None]:
    """Let the dropout of a model work in evaluation mode, if ``active``.

    Batch normalization stays in evaluation mode.
    """
    attributes = {Dropout: "always", FairseqDropout: "apply_during_inference"}
    changed = [
        (module, name, getattr(module, name))
        for module in model.modules()
        for kind, name in attributes.items()
        if active and isinstance(module, kind)
    ]
    for module, name, _ in changed:
        setattr(module, name, True)
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


@torch.no_grad()
def _is_finite(model: FairseqEncoderDecoderModel, sample: dict[str, Any]) -> bool:
    """Whether all logits for the references are numbers, which they are not after divergence."""
    logits, *_ = model(**sample["net_input"])
    return bool(torch.isfinite(logits).all())


def _is_possible(hypothesis: dict[str, Any]) -> bool:
    """Whether the model gives a hypothesis a probability above 0.

    A beam larger than the number of possible translations is filled up with impossible ones.
    """
    return bool(torch.isfinite(hypothesis["positional_scores"]).all())
