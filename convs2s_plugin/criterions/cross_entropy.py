"""``--criterion convs2s_cross_entropy``: cross-entropy without the logits of a whole batch."""

import math
from dataclasses import dataclass
from typing import Any, Dict, List

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.models.options import option
from convs2s.nn.cross_entropy import CrossEntropy, linear_cross_entropy
from convs2s.nn.divergence import TwoPasses, Weights, cross_entropy_of_two_passes
from convs2s.nn.embedding import cut_tokens
from convs2s.nn.int8 import dense

from ..models.adapters import OutputLayer, embedding_matrices, output_layer_of

# The probability of the paper.
SIMCUT_P = 0.05


@dataclass
class ConvS2SCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """The options of fairseq's label_smoothed_cross_entropy, and those of a second pass."""

    simcut_weight: float = option(
        0.0,
        "weight of the divergence of predictions from those of a second pass, in which the "
        "embeddings of random source and target tokens are zero (SimCut; 3 in the paper)",
    )
    simcut_p: float = option(SIMCUT_P, "with --simcut-weight: probability that a token is cut")
    rdrop_weight: float = option(
        0.0,
        "weight of the divergences of the predictions of two passes, which differ in their "
        "dropout, and which are both trained (R-Drop; 5 in the paper)",
    )


@register_criterion("convs2s_cross_entropy", dataclass=ConvS2SCrossEntropyConfig)
class ConvS2SCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """fairseq's label_smoothed_cross_entropy, with output projection and loss in chunks.

    Works with the models of this package and with fairseq's transformers. If the task gives a
    batch a candidate vocabulary (``sample["candidates"]``, K sorted token indices that include all
    target tokens), the softmax is over that vocabulary.

    With ``--simcut-weight`` (Gao et al. 2022) or ``--rdrop-weight`` (Liang et al. 2021), a training
    step has every sentence twice, in one batch of twice the size, and the loss includes how far
    apart the two predictions of a token are.
    """

    def __init__(
        self,
        task,
        sentence_avg,
        label_smoothing,
        ignore_prefix_size=0,
        report_accuracy=False,
        simcut_weight=0.0,
        simcut_p=SIMCUT_P,
        rdrop_weight=0.0,
    ):
        if not 0.0 <= label_smoothing < 1.0:
            raise UserError(
                f"--label-smoothing is {label_smoothing}, but must be at least 0 and below 1."
            )
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)
        self.weights = _weights_of_passes(simcut_weight, simcut_p, rdrop_weight)
        self.simcut_p = simcut_p if simcut_weight else 0.0

    def forward(self, model, sample: Dict[str, Any], reduce: bool = True):
        """Compute the loss of a batch.

        Args:
            model: a translation model.
            sample: a batch of fairseq's LanguagePairDataset.
            reduce: must be True, because the losses of single tokens are not kept.
        Returns:
            The loss, summed over tokens; the sample size; and the logging output.
        Raises:
            UserError: if ``reduce`` is False, or the model does not compute logits with one linear
                layer.
        """
        self.check_reduce(reduce)
        layer = output_layer_of(model.decoder, sample.get("candidates"))
        inputs = sample["net_input"]
        if self.weights is None or not model.training:
            features, _ = model(**inputs, features_only=True)
            return self.loss_of_features(features, layer, sample)
        # Both copies of a sentence are side by side: the longest sentences stay first.
        inputs = {
            name: each.repeat_interleave(2, dim=0) if isinstance(each, Tensor) else each
            for name, each in inputs.items()
        }
        matrices = embedding_matrices(model) if self.simcut_p else []
        with cut_tokens(matrices, self.simcut_p):
            features, _ = model(**inputs, features_only=True)
        return self.loss_of_features(features, layer, sample)

    @classmethod
    def check_reduce(cls, reduce: bool) -> None:
        """Check that the losses of single tokens are not requested.

        Raises:
            UserError: if they are.
        """
        if not reduce:
            raise UserError(
                f"{cls.__name__} only computes the sum over a batch: for the loss of each token, "
                "use fairseq's label_smoothed_cross_entropy."
            )

    def loss_of_features(self, features: Tensor, layer: OutputLayer, sample: Dict[str, Any]):
        """Compute the loss of a batch from features, as ``forward`` does.

        Args:
            features: B x T x C, or 2B x T x C with the second pass after the first one of each
                sentence.
            layer: the output layer, for the candidate vocabulary if the batch has one.
            sample: the batch.
        """
        candidates = sample.get("candidates")
        target = sample["target"]
        # Of the rows: the tokens that count may be none in both passes.
        has_two_passes = len(features) > len(target)
        features = features.unflatten(0, (len(target), -1)).transpose(0, 1)
        if self.ignore_prefix_size > 0:
            features = features[:, :, self.ignore_prefix_size :]
            target = target[:, self.ignore_prefix_size :]
        # The device is read once for both.
        real = target.ne(self.padding_idx).flatten().nonzero().squeeze(1)
        features = features.flatten(1, 2).index_select(1, real).flatten(0, 1)
        target = target.flatten().index_select(0, real)

        if candidates is not None:
            target = torch.searchsorted(candidates, target)
        output = dense(layer.weight), layer.bias, target
        divergence = {}
        sums: CrossEntropy | TwoPasses
        if self.weights is None or not has_two_passes:
            sums = linear_cross_entropy(features, *output, self.eps, self.report_accuracy)
        else:
            sums = cross_entropy_of_two_passes(
                features, *output, self.weights, self.eps, self.report_accuracy
            )
            divergence = {"divergence": sums.divergence}
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": sums.loss.data,
            "nll_loss": sums.nll,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
            **divergence,
        }
        if self.report_accuracy:
            log.update(n_correct=sums.correct, total=len(target))
        if candidates is not None:
            log.update(candidates=len(candidates), candidate_sets=1)
        return sums.loss, sample_size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log fairseq's metrics, the divergence in bits per token, and the mean size of the
        candidate vocabularies."""
        super().reduce_metrics(logging_outputs)
        tokens = sum(log["ntokens"] for log in logging_outputs if "divergence" in log)
        if tokens > 0:
            divergence = sum(log.get("divergence", 0) for log in logging_outputs)
            metrics.log_scalar("divergence", divergence / tokens / math.log(2), tokens, round=3)
        sets = sum(log.get("candidate_sets", 0) for log in logging_outputs)
        if sets > 0:
            total = sum(log["candidates"] for log in logging_outputs)
            metrics.log_scalar("candidates", total / sets, sets, round=0)


def _weights_of_passes(simcut: float, cut: float, rdrop: float) -> Weights | None:
    """The loss of two passes that options ask for; None for a loss of one pass.

    Raises:
        UserError: if a value is not allowed, or both ways are asked for.
    """
    for name, weight in (("simcut", simcut), ("rdrop", rdrop)):
        if not 0.0 <= weight < math.inf:
            raise UserError(f"--{name}-weight is {weight}: it must be at least 0.")
    if not 0.0 < cut < 1.0:
        raise UserError(f"--simcut-p is {cut}: it must be above 0 and below 1.")
    if cut != SIMCUT_P and not simcut:
        raise UserError(f"--simcut-p {cut} needs --simcut-weight, such as 3.")
    if simcut and rdrop:
        raise UserError(
            f"--simcut-weight {simcut} and --rdrop-weight {rdrop} both compare two passes: give "
            "one of them."
        )
    if simcut:
        return Weights.simcut(simcut)
    return Weights.rdrop(rdrop) if rdrop else None
