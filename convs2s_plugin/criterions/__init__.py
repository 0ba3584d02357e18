"""Criterions of all families; importing this package registers ``convs2s_cross_entropy``."""

from .cross_entropy import ConvS2SCrossEntropy

__all__ = ["ConvS2SCrossEntropy"]
