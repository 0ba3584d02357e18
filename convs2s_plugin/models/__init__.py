"""Thin fairseq adapters, one file a family; importing them registers models and architectures."""

from . import convs2s

__all__ = ["convs2s"]
