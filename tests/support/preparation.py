"""The content of a preparation, as far as the command of a first training reads it."""


def prepared(pairs, joint, longest, tokenizer):
    """A preparation from German to English.

    Args:
        pairs: number of training pairs, or 0 for 1.
        joint: whether both languages have one dictionary.
        longest: tokens of the longest line of the validation text.
        tokenizer: a key of ``TOKENIZERS``.
    """
    return {
        "languages": {"source": "de", "target": "en"},
        "pairs": {"train": max(pairs, 1)},
        "subwords": {"joint": joint},
        "longest": {"train": 5000, "valid": longest},
        "tokenizer": tokenizer,
    }
