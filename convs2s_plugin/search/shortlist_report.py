"""The mean size of shortlists, for the log."""

import logging

logger = logging.getLogger(__name__)


class ShortlistSizes:
    """Sizes of the shortlists of some batches.

    Args:
        vocab_size: V of the whole target vocabulary.
    """

    def __init__(self, vocab_size: int):
        self._vocab_size = vocab_size
        self._num_batches = self._total_size = 0

    def add(self, size: int) -> None:
        """Count the shortlist of a batch."""
        self._num_batches += 1
        self._total_size += size

    def log_mean(self) -> None:
        """Log the mean size so far, if there is any."""
        if self._num_batches and not _is_log_closed():
            mean = self._total_size / self._num_batches
            logger.info(
                f"candidate vocabularies: {mean:,.0f} of {self._vocab_size:,} tokens on average "
                f"({mean / self._vocab_size:.1%}), {self._num_batches:,} batches"
            )


def _is_log_closed() -> bool:
    """Whether the log is a closed file, as it may be at the exit of the interpreter."""
    streams = (getattr(handler, "stream", None) for handler in logging.getLogger().handlers)
    return any(getattr(stream, "closed", False) for stream in streams)
