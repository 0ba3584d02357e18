"""Validations of a training as they happen, for whoever listens.

fairseq tells learning-rate schedulers about validations at the end of an epoch only, but tasks
about each of them.
"""

import weakref
from typing import Any

from ..errors import UserError

_tasks: weakref.WeakSet = weakref.WeakSet()
_listeners: weakref.WeakSet = weakref.WeakSet()


class ReportsValidations:
    """Stands in front of a fairseq task among the bases of a class, and reports its validations."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._first_subset = False
        _tasks.add(self)

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Called by fairseq before a validation, at the end of an epoch or within one."""
        super().begin_valid_epoch(epoch, model)  # type: ignore[misc]
        self._first_subset = True

    def post_validate(self, model, stats: dict[str, Any], meters) -> None:
        """Called by fairseq after each subset of a validation; the first is the one that counts.

        Args:
            model: what was validated.
            stats: values of all workers together, and ``num_updates``.
            meters: what the values come from.
        """
        if self._first_subset:
            self._first_subset = False
            for listener in list(_listeners):
                listener.validated(stats)


def listen(listener) -> None:
    """Have ``listener.validated(stats)`` called after each validation, before anything is saved.

    Raises:
        UserError: where no task reports any.
    """
    if not _tasks:
        raise UserError(
            "--lr-scheduler reduce_lr_on_validation hears of validations from the task: add --task "
            "convs2s_translation, or put convs2s_plugin.validations.ReportsValidations among the "
            "bases of a task of your own."
        )
    _listeners.add(listener)
