"""Criterions of all families; importing this package registers them with fairseq."""

from .cross_entropy import ConvS2SCrossEntropy
from .sequence_risk import ConvS2SSequenceRisk

__all__ = ["ConvS2SCrossEntropy", "ConvS2SSequenceRisk"]
