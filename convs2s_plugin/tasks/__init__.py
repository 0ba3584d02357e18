"""fairseq tasks; importing this package registers ``convs2s_translation`` and its detokenizer."""

from . import detokenizer  # noqa: F401
from .translation import ConvS2STranslationTask

__all__ = ["ConvS2STranslationTask"]
