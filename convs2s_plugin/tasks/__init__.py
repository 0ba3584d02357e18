"""What fairseq's commands call; importing this registers ``convs2s_translation``."""

from .translation import ConvS2STranslationTask

__all__ = ["ConvS2STranslationTask"]
