"""Faults of fairseq's beam search."""

import functools
import math
from typing import Any

import torch
from fairseq.search import DiverseBeamSearch, LexicallyConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.token_generation_constraints import OrderedConstraintState, UnorderedConstraintState
from torch import Tensor

from convs2s.common.errors import UserError

CONSTRAINT_STATES = {"ordered": OrderedConstraintState, "unordered": UnorderedConstraintState}


def number_sentences_by_batch() -> None:
    """Make ``--diverse-beam-groups`` work with more than one batch.

    Its search keeps one row for each sentence of the batch, but looks them up by "id", the number
    of the sentence in the data set.
    """
    original = SequenceGenerator._generate

    @functools.wraps(original)
    def _generate(
        self: SequenceGenerator, sample: dict[str, Any], *args: Any, **kwargs: Any
    ) -> Any:
        if isinstance(self.search, DiverseBeamSearch) and torch.is_tensor(sample.get("id")):
            ids = torch.arange(len(sample["id"]), device=sample["id"].device)
            sample = {**sample, "id": ids}
        return original(self, sample, *args, **kwargs)

    SequenceGenerator._generate = _generate


def end_constrained_searches() -> None:
    """Make ``--constraints`` work when hypotheses without all constraints are of maximum length.

    fairseq lets no such hypothesis end, and then fails. Here it ends, and comes after those with
    all constraints. Data without constraints are refused.
    """
    init, step_once = (
        LexicallyConstrainedBeamSearch.init_constraints,
        LexicallyConstrainedBeamSearch.step,
    )
    generate = SequenceGenerator._generate

    @functools.wraps(init)
    def init_constraints(
        self: LexicallyConstrainedBeamSearch, batch_constraints: Tensor | None, beam_size: int
    ) -> None:
        if batch_constraints is None:
            raise UserError(
                "--constraints needs the words that each translation must have, but these data "
                "have none: use fairseq-interactive, with lines SOURCE<tab>WORDS<tab>WORDS."
            )
        init(self, batch_constraints, beam_size)

    @functools.wraps(step_once)
    def step(
        self: LexicallyConstrainedBeamSearch, step: int, lprobs: Tensor, *args: Any, **kwargs: Any
    ) -> Any:
        must_end = bool(lprobs[:, :, self.eos + 1 :].max() == -math.inf)
        if not must_end:
            return step_once(self, step, lprobs, *args, **kwargs)
        states, self.constraint_states = self.constraint_states, []
        try:
            return step_once(self, step, lprobs, *args, **kwargs)
        finally:
            self.constraint_states = states

    @functools.wraps(generate)
    def _generate(
        self: SequenceGenerator,
        sample: dict[str, Any],
        prefix_tokens: Tensor | None = None,
        constraints: Tensor | None = None,
        bos_token: int | None = None,
    ) -> Any:
        found = generate(self, sample, prefix_tokens, constraints, bos_token)
        if constraints is None:
            return found
        state = CONSTRAINT_STATES[self.search.representation]
        return [
            sorted(hypotheses, key=lambda each: not _has_all(state.create(packed), each))
            for packed, hypotheses in zip(constraints.cpu(), found)
        ]

    LexicallyConstrainedBeamSearch.init_constraints = init_constraints
    LexicallyConstrainedBeamSearch.step = step
    SequenceGenerator._generate = _generate


def _has_all(state: Any, hypothesis: dict[str, Any]) -> bool:
    """Whether a hypothesis has all the constraints of the initial state."""
    for token in hypothesis["tokens"][:-1].tolist():
        state = state.advance(token)
    return state.finished
