"""Everything about fairseq's versions, faults and messages, in one place."""

from . import batches, checkpoints, messages


def prepare() -> None:
    """Make this fairseq and this torch work together; called once, at import."""
    messages.install_excepthook()
    checkpoints.allow_plain_data()
    checkpoints.explain_unreadable_checkpoints()
    checkpoints.copy_checkpoints_whole()
    batches.resume_with_the_same_batches()
    batches.keep_the_last_batch()
