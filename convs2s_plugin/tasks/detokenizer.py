"""``--eval-bleu-detok convs2s``: the text of tokens that ``convs2s prepare`` made."""

from dataclasses import dataclass
from functools import cached_property

from fairseq.data.encoders import register_tokenizer
from fairseq.dataclass import FairseqDataclass

from convs2s.common.errors import UserError, nearest
from convs2s.models.options import option
from convs2s.text.symbols import unescape, unescape_joints
from convs2s.text.tokenizers import TOKENIZERS, Tokenizer, make_tokenizer


@dataclass
class DetokenizerConfig(FairseqDataclass):
    """How the target text was prepared; checkpoints have these values, and need no other file."""

    target_lang: str = option("en", "language of the text")
    prepared_tokenizer: str = option("none", "its tokenizer, as in preparation.yaml")
    prepared_subwords: str = option("none", "method of its sub-words, as in preparation.yaml")
    marks_spaces: bool = option(False, "the tokenizer moses has marked spaces")


@register_tokenizer("convs2s", dataclass=DetokenizerConfig)
class Detokenizer:
    """Makes text of tokens as ``convs2s translate`` does, after fairseq has joined sub-words.

    Args:
        cfg: the options above.
    Raises:
        UserError: if there is no such tokenizer.
    """

    def __init__(self, cfg: DetokenizerConfig):
        self.cfg = cfg
        name = cfg.prepared_tokenizer
        if name not in TOKENIZERS:
            raise UserError(
                f"prepared_tokenizer of the tokenizer convs2s is {name}, but must be one of "
                f"{', '.join(TOKENIZERS)}{nearest(name, TOKENIZERS)}."
            )

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        # Only when there is text: a model also loads where the packages of tokenizers are missing.
        cfg = self.cfg
        return make_tokenizer(cfg.prepared_tokenizer, cfg.target_lang, cfg.marks_spaces)

    def encode(self, x: str) -> str:
        """Refuse to make tokens.

        Raises:
            UserError: always.
        """
        raise UserError(
            "The tokenizer convs2s only makes text of tokens, for --eval-bleu-detok: translate "
            "text with `convs2s translate`."
        )

    def decode(self, x: str) -> str:
        """The text of a line of tokens."""
        if self.cfg.prepared_subwords == "subword_nmt":
            x = unescape_joints(x)
        return self._tokenizer.detokenize(unescape(x))
