"""Workarounds for faults of fairseq, and differences between its versions."""

from . import batches, checkpoints, evaluated_options, messages, search, unknown_words


def prepare() -> None:
    """Change fairseq as this package needs it; called once, when the package is imported."""
    messages.install_excepthook()
    checkpoints.allow_plain_data()
    checkpoints.explain_unreadable_checkpoints()
    checkpoints.copy_checkpoints_atomically()
    evaluated_options.parse_options()
    unknown_words.allow_binarized_data()
    search.number_sentences_by_batch()
    batches.resume_with_same_batches()
    batches.keep_last_batch()
