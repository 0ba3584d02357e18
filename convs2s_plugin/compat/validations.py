"""Notification of every validation during training.

fairseq notifies learning-rate schedulers of the validation at the end of an epoch only, but tasks
of every validation. A task with ``ReportsValidations`` passes the notification on to listeners.
"""

import weakref
from typing import Any

from convs2s.common.errors import UserError

_tasks: weakref.WeakSet = weakref.WeakSet()
_listeners: weakref.WeakSet = weakref.WeakSet()


class ReportsValidations:
    """A mixin for fairseq tasks; it precedes the task among the base classes."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self._first_subset = False
        _tasks.add(self)

    def begin_valid_epoch(self, epoch: int, model) -> None:
        """Note that a validation begins; fairseq calls this method at every validation."""
        super().begin_valid_epoch(epoch, model)  # type: ignore[misc]
        self._first_subset = True

    def post_validate(self, model, stats: dict[str, Any], meters) -> None:
        """Notify the listeners if this is the first subset of a validation.

        fairseq calls this method after each subset of ``--valid-subset``.

        Args:
            model: the validated model.
            stats: metrics over all workers, and ``num_updates``.
            meters: unused.
        """
        if self._first_subset:
            self._first_subset = False
            for listener in list(_listeners):
                listener.validated(stats)


def listen(listener) -> None:
    """Call ``listener.validated(stats)`` after each validation, before a checkpoint is saved.

    Raises:
        UserError: if there is no task that reports validations.
    """
    if not _tasks:
        raise UserError(
            "--lr-scheduler reduce_lr_on_validation is notified of validations by the task: add "
            "--task convs2s_translation, or derive your own task from "
            "convs2s_plugin.compat.validations.ReportsValidations, too."
        )
    _listeners.add(listener)
