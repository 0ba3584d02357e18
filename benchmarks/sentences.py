"""The sentences that are worked on: random ones, or batches of binarised data."""

from itertools import islice
from typing import NamedTuple

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from convs2s_plugin.errors import UserError

from .setting import Setting

# Sentences and words of a batch that only warms up.
TINY = 2, 3


class Sentences(NamedTuple):
    """Dictionaries of both sides, a tiny batch, and those that are worked on."""

    source: Dictionary
    target: Dictionary
    tiny: list[dict]
    batches: list[dict]


def sentences(setting: Setting, split: str) -> Sentences:
    """What a setting works on, on its device.

    Args:
        setting: says which.
        split: of the data, where there is any.
    Raises:
        UserError: where the data cannot be read.
    """
    if setting.data is None:
        source = target = random_dictionary(setting.words)
        batches = [random_batch(source, setting.sentences, setting.length)]
    else:
        task = read_task(setting.data)
        source, target = task.source_dictionary, task.target_dictionary
        batches = real_batches(task, split, setting.sentences, setting.batches)
    smaller = min(source, target, key=len)
    tiny = [random_batch(smaller, *TINY)]
    tiny, batches = (
        [to_device(batch, setting.device) for batch in some] for some in (tiny, batches)
    )
    return Sentences(source, target, tiny, batches)


def random_dictionary(words: int) -> Dictionary:
    """A dictionary with so many types, fairseq's special symbols included."""
    symbols = Dictionary()
    for number in range(words - len(symbols)):
        symbols.add_symbol(f"w{number}")
    return symbols


def random_batch(symbols: Dictionary, sentences: int, length: int) -> dict:
    """A batch of sentences of one length on both sides, as fairseq's data sets make it."""
    generator = torch.Generator().manual_seed(1)
    size = (sentences, length - 1)
    end = torch.full((sentences, 1), symbols.eos())
    source, target = (
        torch.cat(
            [torch.randint(symbols.nspecial, len(symbols), size, generator=generator), end], dim=1
        )
        for _ in range(2)
    )
    return {
        "id": torch.arange(sentences),
        "nsentences": sentences,
        "ntokens": sentences * length,
        "net_input": {
            "src_tokens": source,
            "src_lengths": torch.full((sentences,), length),
            "prev_output_tokens": target.roll(1, dims=1),
        },
        "target": target,
    }


def read_task(folder: str) -> TranslationTask:
    """fairseq's task for a folder that fairseq-preprocess wrote.

    Raises:
        UserError: where it is no such folder.
    """
    cfg = TranslationConfig(
        data=folder, train_subset="train", dataset_impl=None, required_seq_len_multiple=1
    )
    try:
        return TranslationTask.setup_task(cfg)
    except Exception as error:
        raise UserError(
            f"{folder} cannot be read as a folder that fairseq-preprocess wrote: {error}."
        ) from error


def real_batches(
    task: TranslationTask, split: str, size: int, number: int | None = None
) -> list[dict]:
    """Batches of a split in fairseq's random order, sentences of similar length in each.

    Args:
        task: has the data.
        split: e.g. ``train``.
        size: sentences of a batch.
        number: of batches, the first ones (all).
    Raises:
        UserError: where the split is not there or has fewer batches.
    """
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        raise UserError(f"There is no {split} set in {task.cfg.data}.") from error
    iterator = task.get_batch_iterator(
        task.dataset(split),
        max_sentences=size,
        max_positions=(1024, 1024),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=1,
    )
    if number is not None and not 0 < number <= len(iterator):
        raise UserError(
            f"--batches is {number}, but the {split} set of {task.cfg.data} has {len(iterator)} "
            f"batches of {size} sentences: ask for 1 to {len(iterator)}."
        )
    return list(islice(iterator.next_epoch_itr(shuffle=True), number))


def to_device(batch: dict, device: str) -> dict:
    """The same batch on a device."""
    return utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
