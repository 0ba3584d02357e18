"""Shared by many tests: a vocabulary, and random batches padded on either side."""

import torch

from convs2s.text.vocabulary import Vocabulary

WORDS = 31


def vocabulary(words=WORDS):
    """A vocabulary of ``w0`` ... and the special symbols."""
    symbols = Vocabulary()
    for i in range(words):
        symbols.add_symbol(f"w{i}")
    return symbols


SYMBOLS = vocabulary()
PAD, EOS = SYMBOLS.pad(), SYMBOLS.eos()


def padded(rows, left):
    """Sentences as one tensor, padded on the left or on the right."""
    length = max(map(len, rows))
    sides = [(length - len(row), 0) if left else (0, length - len(row)) for row in rows]
    pad = torch.nn.functional.pad
    return torch.stack([pad(row, side, value=PAD) for row, side in zip(rows, sides)])


def random_batch(lengths, left_pad_source=True, left_pad_target=False, seed=1, words=WORDS):
    """A batch of random sentences, with the names of fairseq.

    Args:
        lengths: tokens of source and target of each sentence, end of sentence included.
    """
    generator = torch.Generator().manual_seed(seed)
    first, end = len(vocabulary(0)), len(vocabulary(words))

    def sentence(length):
        real = torch.randint(first, end, (length - 1,), generator=generator)
        return torch.cat([real, torch.tensor([EOS])])

    sources, targets = zip(*((sentence(s), sentence(t)) for s, t in lengths))
    return {
        "id": torch.arange(len(lengths)),
        "nsentences": len(lengths),
        "ntokens": sum(map(len, targets)),
        "net_input": {
            "src_tokens": padded(sources, left_pad_source),
            "src_lengths": torch.tensor([len(source) for source in sources]),
            "prev_output_tokens": padded([row.roll(1) for row in targets], left_pad_target),
        },
        "target": padded(targets, left_pad_target),
    }


def loss_of_logits(logits, batch):
    """Cross-entropy summed over the tokens of a batch, padding excluded."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["target"].flatten(), ignore_index=PAD, reduction="sum"
    )
