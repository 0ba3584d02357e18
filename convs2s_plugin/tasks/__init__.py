"""fairseq tasks; importing this package registers ``convs2s_translation``."""

from .translation import ConvS2STranslationTask

__all__ = ["ConvS2STranslationTask"]
