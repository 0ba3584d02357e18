"""``--criterion convs2s_cross_entropy``: cross-entropy without the logits of a whole batch."""

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
from convs2s.nn.cross_entropy import linear_cross_entropy
from convs2s.nn.int8 import dense

from ..models.adapters import OutputLayer, output_layer_of


@dataclass
class ConvS2SCrossEntropyConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """The options of fairseq's label_smoothed_cross_entropy."""


@register_criterion("convs2s_cross_entropy", dataclass=ConvS2SCrossEntropyConfig)
class ConvS2SCrossEntropy(LabelSmoothedCrossEntropyCriterion):
    """fairseq's label_smoothed_cross_entropy, with output projection and loss in chunks.

    Works with the models of this package and with fairseq's transformers. If the task gives a
    batch a candidate vocabulary (``sample["candidates"]``, K sorted token indices that include all
    target tokens), the softmax is over that vocabulary.
    """

    def __init__(
        self, task, sentence_avg, label_smoothing, ignore_prefix_size=0, report_accuracy=False
    ):
        if not 0.0 <= label_smoothing < 1.0:
            raise UserError(
                f"--label-smoothing is {label_smoothing}, but must be at least 0 and below 1."
            )
        super().__init__(task, sentence_avg, label_smoothing, ignore_prefix_size, report_accuracy)

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
        features, _ = model(**sample["net_input"], features_only=True)
        return self.loss_of_features(features, layer, sample)

    @classmethod
    def check_reduce(cls, reduce: bool) -> None:
        """Check that the losses of single tokens are not asked for.

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
            features: B x T x C.
            layer: the output layer, for the candidate vocabulary if the batch has one.
            sample: the batch.
        """
        candidates = sample.get("candidates")
        target = sample["target"]
        if self.ignore_prefix_size > 0:
            features = features[:, self.ignore_prefix_size :]
            target = target[:, self.ignore_prefix_size :]
        # One read of the device for both.
        real = target.ne(self.padding_idx).flatten().nonzero().squeeze(1)
        features = features.flatten(0, 1).index_select(0, real)
        target = target.flatten().index_select(0, real)

        if candidates is not None:
            target = torch.searchsorted(candidates, target)
        sums = linear_cross_entropy(
            features, dense(layer.weight), layer.bias, target, self.eps, self.report_accuracy
        )
        sample_size = sample["target"].size(0) if self.sentence_avg else sample["ntokens"]
        log = {
            "loss": sums.loss.data,
            "nll_loss": sums.nll,
            "ntokens": sample["ntokens"],
            "nsentences": sample["target"].size(0),
            "sample_size": sample_size,
        }
        if self.report_accuracy:
            log.update(n_correct=sums.correct, total=len(target))
        if candidates is not None:
            log.update(candidates=len(candidates), candidate_sets=1)
        return sums.loss, sample_size, log

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Log fairseq's metrics, and the mean size of the candidate vocabularies."""
        super().reduce_metrics(logging_outputs)
        sets = sum(log.get("candidate_sets", 0) for log in logging_outputs)
        if sets > 0:
            total = sum(log["candidates"] for log in logging_outputs)
            metrics.log_scalar("candidates", total / sets, sets, round=0)
