"""Workarounds for faults of fairseq, and differences between its versions.

Each module declares its changes with ``patches.patched``; ``docs/compatibility.md`` lists them.
"""

# Importing a module declares its changes.
from . import (  # noqa: F401
    batches,
    changed_options,
    checkpoints,
    commands,
    data_files,
    data_sets,
    dictionaries,
    ended_runs,
    evaluated_options,
    generation,
    interrupting,
    intervals,
    messages,
    plateaus,
    resuming,
    starting,
    training,
    validation,
)
from .patches import Tier, install, mode


def prepare() -> None:
    """Change fairseq as the models of this package need it; called when the plugin is imported.

    CONVS2S_COMPAT=all makes the changes of ``enable_all`` as well, and 0 makes none at all.

    Raises:
        UserError: if CONVS2S_COMPAT has another value.
    """
    install(Tier.NEEDED)
    if mode() != "0":
        messages.hide_warnings()
    if mode() == "all":
        enable_all()


def enable_all() -> None:
    """Change fairseq where that protects or helps users, whatever their model.

    Called when code of this package is to run: by its commands, models and tasks.
    """
    install(Tier.EXTRA)


def enable_for_task() -> None:
    """Do the same for the task ``convs2s_translation``, which replaces unknown words itself."""
    enable_all()
    install(Tier.TASK)
