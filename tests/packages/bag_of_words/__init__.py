"""A bag-of-words translation model: a family of its own, for fairseq's ``--user-dir``."""

from . import model

__all__ = ["model"]
