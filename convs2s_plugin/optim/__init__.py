"""The learning rate: importing this package registers ``reduce_lr_on_validation``.

``lr_sweep`` and ``lr_suggestion`` are the LR range test of ``convs2s find-lr``.
"""

from .reduce_lr_on_validation import ReduceLROnValidation

__all__ = ["ReduceLROnValidation"]
