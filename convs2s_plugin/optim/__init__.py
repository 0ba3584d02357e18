"""Learning rate schedulers; importing this package registers ``reduce_lr_on_validation``."""

from .reduce_lr_on_validation import ReduceLROnValidation

__all__ = ["ReduceLROnValidation"]
