"""Replacing unknown words by means of attention (ConvS2S, section 4.3)."""

import logging
from collections.abc import Mapping

from torch import Tensor

logger = logging.getLogger(__name__)


class UnknownWords:
    """Puts a word in the place of each ``<unk>``: a translation of the aligned word, or a copy.

    Words that the dictionaries lack are added at their end, above all indices that models know:
    the source's when text is encoded, the target's here.

    Args:
        source, target: the dictionaries.
        vocab_sizes: sizes of the source and of the target vocabulary of the models.
        translations: source word -> target word.
    """

    def __init__(
        self, source, target, vocab_sizes: tuple[int, int], translations: Mapping[str, str]
    ):
        self.source, self.target = source, target
        self.source_vocab_size, self.target_vocab_size = vocab_sizes
        self.translations = translations
        self.warned = False

    def replace(self, tokens: Tensor, source: Tensor, attention: Tensor) -> Tensor:
        """A hypothesis without unknown words, as far as the source words are known.

        Args:
            tokens: T indices of target words.
            source: S indices of source words, padding and end of sentence included.
            attention: S x T weights; those on padding and end of sentence do not count.
        """
        unknown = tokens.eq(self.target.unk()).nonzero().flatten().tolist()
        is_word = source.ne(self.source.pad()) & source.ne(self.source.eos())
        if not unknown or not bool(is_word.any()):
            return tokens
        aligned = attention.masked_fill(~is_word.unsqueeze(1), -1.0).argmax(dim=0)
        tokens = tokens.clone()
        for place in unknown:
            index = int(source[aligned[place]])
            if index == self.source.unk():
                self._warn()
                continue
            word = self.source[index]
            tokens[place] = self.index(self.translations.get(word, word))
        return tokens

    def known_to_models(self, src_tokens: Tensor) -> Tensor:
        """Indices of source words with ``<unk>`` for those that no model knows."""
        return src_tokens.masked_fill(src_tokens >= self.source_vocab_size, self.source.unk())

    def prefix_known_to_models(self, prefix_tokens: Tensor | None) -> Tensor | None:
        """As above for target words."""
        if prefix_tokens is None:
            return None
        return prefix_tokens.masked_fill(prefix_tokens >= self.target_vocab_size, self.target.unk())

    def index(self, word: str) -> int:
        """The index of a target word, which is added where it is new."""
        index = self.target.index(word)
        return self.target.add_symbol(word) if index == self.target.unk() else index

    def _warn(self) -> None:
        if not self.warned:
            self.warned = True
            logger.warning(
                "Some unknown words stay <unk>: the source words that they are aligned with are "
                "unknown too, and binarised data does not keep their text. Translate the text with "
                "fairseq-interactive, or preprocess it with --dataset-impl raw."
            )
