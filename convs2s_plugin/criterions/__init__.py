"""Losses that the families share; importing this registers them."""

from .cross_entropy import ConvS2SCrossEntropy

__all__ = ["ConvS2SCrossEntropy"]
