"""``--criterion convs2s_sequence_risk``: losses of whole sentences over candidate translations."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.dataclass import ChoiceEnum
from fairseq.distributed.utils import get_data_parallel_world_size
from fairseq.logging import metrics
from fairseq.models import FairseqEncoderDecoderModel
from torch import Tensor, nn

from convs2s.common.errors import UserError
from convs2s.models.options import option
from convs2s.nn.gradient import is_ignored
from convs2s.nn.sequence_losses import SEQUENCE_LOSSES

from ..models.adapters import output_layer_of
from .cross_entropy import ConvS2SCrossEntropy
from .sequences.candidate_file import CandidateFile
from .sequences.candidates import COSTS, CandidateSet, Costs, candidate_sets
from .sequences.scoring import SequenceLoss
from .sequences.search import CandidateSearch


@dataclass
class ConvS2SSequenceRiskConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """The options of fairseq's label_smoothed_cross_entropy, and those of the loss of sentences."""

    sequence_loss: ChoiceEnum(tuple(SEQUENCE_LOSSES)) = option(  # type: ignore[valid-type]
        "risk",
        "loss of a sentence: expected risk, negative log-likelihood of the best "
        "candidate, margin to all other candidates, to the one with the highest score, or "
        "softmax-margin",
    )
    sequence_cost: ChoiceEnum(COSTS) = option(  # type: ignore[valid-type]
        "bleu",
        "cost of a candidate: 1 - smoothed sentence BLEU, or 1 - chrF",
    )
    sequence_remove_bpe: ChoiceEnum(  # type: ignore[valid-type]
        ("subword_nmt", "sentencepiece", "none")
    ) = option("subword_nmt", "sub-words that are joined before costs are computed")
    sequence_candidates: int = option(16, "number of candidates of each sentence")
    sequence_search: ChoiceEnum(("beam", "sampling")) = option(  # type: ignore[valid-type]
        "beam",
        "how candidates are found with the current model; validation always uses beam search",
    )
    sequence_candidate_file: Optional[str] = option(
        None,
        "n-best lists of the training data, as fairseq-generate --nbest writes them "
        "without --remove-bpe: train on these candidates instead of searching",
    )
    sequence_reference: bool = option(False, "add the reference to the candidates")
    sequence_dropout: bool = option(False, "apply dropout in the search for candidates")
    sequence_temperature: float = option(
        1.0,
        "divisor of the scores of candidates, which are means over tokens; below 1, probable "
        "candidates weigh more",
    )
    sequence_weight: float = option(
        0.5, "weight of the loss of sentences; the loss of tokens has 1 minus this weight"
    )
    sequence_sentence_avg: bool = option(
        False,
        "average the loss of sentences over the sentences of a batch, while that of tokens is "
        "averaged over its tokens",
    )


@register_criterion("convs2s_sequence_risk", dataclass=ConvS2SSequenceRiskConfig)
class ConvS2SSequenceRisk(ConvS2SCrossEntropy):
    """Expected risk of sentences, interpolated with label-smoothed cross-entropy of tokens.

    Edunov et al. 2018, "Classical structured prediction losses for sequence to sequence learning".
    The loss of a sentence takes the place of the loss of each of its tokens, so the sample size
    remains the number of tokens; with ``--sentence-avg``, it takes the place of their sum.
    With ``--sequence-sentence-avg``, it takes the place of the mean number of tokens.
    """

    def __init__(self, task, cfg: ConvS2SSequenceRiskConfig):
        super().__init__(
            task,
            cfg.sentence_avg,
            cfg.label_smoothing,
            cfg.ignore_prefix_size,
            cfg.report_accuracy,
        )
        _check(cfg)
        dictionary = task.target_dictionary
        self.weight = cfg.sequence_weight
        self.equal_sentences = cfg.sequence_sentence_avg
        self.keep_reference = cfg.sequence_reference
        self.score = str(cfg.sequence_cost)
        self.costs = Costs(self.score, dictionary, str(cfg.sequence_remove_bpe))
        self.sequence_loss = SequenceLoss(
            str(cfg.sequence_loss), cfg.sequence_temperature, dictionary.eos(), dictionary.pad()
        )
        self.search = CandidateSearch(
            task,
            cfg.sequence_candidates,
            str(cfg.sequence_search) == "sampling",
            cfg.sequence_dropout,
        )
        self.candidate_file = None
        if cfg.sequence_candidate_file is not None:
            self.candidate_file = CandidateFile(
                cfg.sequence_candidate_file,
                task.source_dictionary,
                dictionary,
                cfg.sequence_candidates,
                cfg.sequence_reference,
            )

    def forward(self, model, sample: Dict[str, Any], reduce: bool = True):
        """Compute the loss of a batch; see ``ConvS2SCrossEntropy.forward``.

        Raises:
            UserError: also if the model would be trained with ``--checkpoint-activations``.
        """
        self.check_reduce(reduce)
        if model.training:
            _check_activations(model)
        begin = time.perf_counter()
        found = self._candidates(model, sample)
        seconds = time.perf_counter() - begin

        target = sample["target"]
        lengths = target.ne(self.padding_idx).sum(dim=1)
        references = [row[row.ne(self.padding_idx)] for row in target.cpu()]
        sets = candidate_sets(found, references, self.costs, self.keep_reference)
        if sample.get("candidates") is not None:
            sample = {**sample, "candidates": _with_tokens(sample["candidates"], sets)}

        layer = output_layer_of(model.decoder, sample.get("candidates"))
        # In one pass through the model, for wrappers of distributed training.
        with _output_of(model.encoder) as encoded:
            features, _ = model(**sample["net_input"], features_only=True)
        # Its gradient would be computed together with the loss.
        with torch.set_grad_enabled(torch.is_grad_enabled() and self.weight < 1.0):
            token_loss, sample_size, log = self.loss_of_features(features, layer, sample)
        del features, layer
        weights = lengths
        if self.sentence_avg or self.equal_sentences:
            weights = torch.full_like(lengths, sample_size / len(sets), dtype=torch.float32)
        sums = self.sequence_loss(
            model,
            encoded[0],
            sets,
            weights,
            target.numel(),
            sample.get("candidates"),
        )
        loss = self.weight * sums.loss + (1.0 - self.weight) * token_loss
        log.update(
            loss=loss.data,
            **{
                f"sentence_{self.score}": sum(1.0 - each.costs[0] for each in sets),
                f"oracle_{self.score}": sum(1.0 - min(each.costs) for each in sets),
            },
        )
        if sums.risk is not None:
            log["risk"] = sums.risk
        if model.training:
            log["search_seconds"] = seconds
        return loss, sample_size, log

    def _candidates(self, model, sample: Dict[str, Any]) -> List[List[Tensor]]:
        """The candidates of each sentence of a batch."""
        if is_ignored():
            # A search would be useless, and a file may not have these sentences: after a
            # validation, fairseq repeats a batch of the validation set.
            return [[] for _ in sample["target"]]
        if self.candidate_file is not None and model.training:
            return self.candidate_file(sample)
        return self.search(model, sample)

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log the metrics of tokens, the risk, scores of candidates, and the time of the search.

        The loss has no base: it is not divided by log(2) as the loss of tokens is.
        """
        super().reduce_metrics(
            [{**log, "loss": log["loss"] * math.log(2)} for log in logging_outputs]
        )
        sentences = sum(log["nsentences"] for log in logging_outputs)

        def log_mean(name: str, scale: int, digits: int) -> None:
            if any(name in log for log in logging_outputs):
                total = sum(log.get(name, 0) for log in logging_outputs)
                metrics.log_scalar(name, scale * total / sentences, sentences, round=digits)

        log_mean("risk", 1, 4)
        for score in COSTS:
            log_mean(f"sentence_{score}", 100, 2)
            log_mean(f"oracle_{score}", 100, 2)
        if any("search_seconds" in log for log in logging_outputs):
            seconds = sum(log.get("search_seconds", 0.0) for log in logging_outputs)
            metrics.log_scalar("_search_seconds", seconds / get_data_parallel_world_size())
            metrics.log_derived("search_share", _search_share)


def _search_share(meters: Dict[str, Any]) -> float:
    """The share of training time that the search takes."""
    total = meters["train_wall"].sum if "train_wall" in meters else 0.0
    return round(float(meters["_search_seconds"].sum / total), 3) if total else 0.0


def _check(cfg: ConvS2SSequenceRiskConfig) -> None:
    """Check the options.

    Raises:
        UserError: if a number is out of range, or an option has no effect.
    """
    if cfg.sequence_candidates < 2:
        raise UserError(
            f"--sequence-candidates is {cfg.sequence_candidates}, but a sentence needs at least 2 "
            "candidates: with one, the risk does not depend on the model."
        )
    if not cfg.sequence_temperature > 0.0:
        raise UserError(
            f"--sequence-temperature is {cfg.sequence_temperature}, but must be above 0; a small "
            "value such as 0.1 prefers the most probable candidates."
        )
    if not 0.0 < cfg.sequence_weight <= 1.0:
        raise UserError(
            f"--sequence-weight is {cfg.sequence_weight}, but must be above 0 and at most 1; "
            "without a loss of sentences, use --criterion convs2s_cross_entropy."
        )
    if cfg.sequence_sentence_avg and cfg.sentence_avg:
        raise UserError(
            "--sentence-avg averages both losses over sentences, so --sequence-sentence-avg has no "
            "effect: omit one of them."
        )
    if cfg.sequence_candidate_file is not None:
        for given, name in (
            (str(cfg.sequence_search) != "beam", f"--sequence-search {cfg.sequence_search}"),
            (cfg.sequence_dropout, "--sequence-dropout"),
        ):
            if given:
                raise UserError(
                    f"{name} is for the search that --sequence-candidate-file replaces: omit one "
                    "of them."
                )


def _check_activations(model: FairseqEncoderDecoderModel) -> None:
    """Check that the decoder keeps its activations: gradients of candidates are computed at once.

    Raises:
        UserError: if fairseq computes them again in the backward pass.
    """
    # fairseq's checkpoint_wrapper sets this attribute.
    if any(hasattr(module, "precheckpoint_forward") for module in model.decoder.modules()):
        raise UserError(
            "--criterion convs2s_sequence_risk computes the gradients of the candidates in the "
            "forward pass, which --checkpoint-activations and --offload-activations do not allow: "
            "omit them. For less memory, use a smaller --max-tokens with a larger "
            "--update-freq."
        )


@contextmanager
def _output_of(module: nn.Module) -> Iterator[List[Any]]:
    """A list to which each forward pass of a module adds its output."""
    outputs: List[Any] = []
    handle = module.register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    try:
        yield outputs
    finally:
        handle.remove()


def _with_tokens(vocabulary: Tensor, sets: List[CandidateSet]) -> Tensor:
    """A candidate vocabulary with the tokens of all candidates added."""
    tokens = {token for each in sets for candidate in each.tokens for token in candidate}
    return torch.cat([vocabulary, vocabulary.new_tensor(sorted(tokens))]).unique()
