"""``--replace-unk`` for fairseq's commands, which print what the dictionaries have.

Words that are not in the dictionaries are appended to them, after the vocabularies of the models:
source words when text is encoded, and target words here.
"""

import logging
import threading
from collections.abc import Mapping

from fairseq.data import Dictionary
from torch import Tensor

from convs2s.translation.alignment import aligned_sources

logger = logging.getLogger(__name__)

# Held while words are appended to a dictionary, which threads may share.
appending = threading.Lock()


class UnknownWords:
    """Replaces each ``<unk>`` with a translation of the aligned source word, or with a copy of it.

    Args:
        source, target: the dictionaries.
        vocab_sizes: sizes of the models' source and target vocabulary.
        translations: one translation of each source word.
    """

    def __init__(
        self,
        source: Dictionary,
        target: Dictionary,
        vocab_sizes: tuple[int, int],
        translations: Mapping[str, str],
    ):
        self.source, self.target = source, target
        self.source_vocab_size, self.target_vocab_size = vocab_sizes
        self.translations = translations
        self.warned = False

    def replace(self, tokens: Tensor, source: Tensor, attention: Tensor) -> Tensor:
        """Replace the unknown words of a hypothesis if their source words are known.

        Args:
            tokens: T target token indices.
            source: S source token indices, with padding and end of sentence.
            attention: weights S x T; those of padding and end of sentence are ignored.
        Returns:
            T target token indices; the target dictionary may have grown.
        """
        special = self.target.unk(), self.source.pad(), self.source.eos()
        aligned = aligned_sources(tokens, source, attention.t(), *special)
        tokens = tokens.clone()
        for position, place in aligned.items():
            index = int(source[place])
            if index == self.source.unk():
                self._warn_once()
                continue
            word = self.source[index]
            with appending:
                tokens[position] = self.target.add_symbol(self.translations.get(word, word))
        return tokens

    def mask_source(self, src_tokens: Tensor) -> Tensor:
        """Replace source tokens that are not in the models' vocabulary with ``<unk>``."""
        return src_tokens.masked_fill(src_tokens >= self.source_vocab_size, self.source.unk())

    def mask_target(self, tokens: Tensor) -> Tensor:
        """Replace target tokens that are not in the models' vocabulary with ``<unk>``."""
        return tokens.masked_fill(tokens >= self.target_vocab_size, self.target.unk())

    def _warn_once(self) -> None:
        if not self.warned:
            self.warned = True
            logger.warning(
                "Some unknown words stay <unk>: the source words that they are aligned with are "
                "also unknown, and binarized data does not keep their text. Translate the text "
                "with fairseq-interactive, or preprocess it with --dataset-impl raw."
            )
