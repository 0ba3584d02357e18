"""Workarounds for faults of fairseq, and differences between its versions."""

from . import (
    batches,
    checkpoints,
    command_line,
    data_files,
    evaluated_options,
    guided_alignment,
    interactive,
    messages,
    resuming,
    saving,
    search,
    transformer_layers,
    unknown_words,
    validate_command,
    workers,
)
from .switch import enabled


def prepare() -> None:
    """Change fairseq as this package needs it; called once, when the package is imported.

    Nothing is changed if the environment variable CONVS2S_COMPAT is 0.
    """
    if not enabled():
        return
    messages.install_excepthook()
    checkpoints.allow_plain_data()
    checkpoints.explain_unreadable_checkpoints()
    saving.save_atomically()
    saving.copy_atomically()
    saving.check_folders()
    resuming.continue_from_newest_checkpoint()
    data_files.check_data_files()
    data_files.name_missing_data()
    data_files.explain_unreadable_dictionaries()
    data_files.explain_unreadable_codes()
    data_files.explain_unreadable_sentencepiece_models()
    interactive.read_lines_of_bytes()
    interactive.forget_translated_lines()
    evaluated_options.parse_options()
    unknown_words.allow_binarized_data()
    search.number_sentences_by_batch()
    search.end_constrained_searches()
    batches.resume_with_same_batches()
    batches.keep_last_batch()
    workers.train_with_launched_workers()
    workers.share_checkpoints()
    command_line.accept_local_rank()
    command_line.correct_parsed_options()
    validate_command.parse_without_task()
    validate_command.use_given_criterion()
    guided_alignment.train_with_alignments()
    transformer_layers.compute_without_fused_layers()
