"""Thin fairseq adapters, one file a family; importing them registers models and architectures."""

from . import adl, convs2s, pervasive

__all__ = ["adl", "convs2s", "pervasive"]
