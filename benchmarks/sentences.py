"""The sentences of a benchmark: random ones, or batches of binarized data."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor

from convs2s.common.errors import UserError

from .setting import Setting

# Sentences, and tokens in a sentence, of the batch that only warms up.
TINY = 2, 3


class Sentences(NamedTuple):
    """The data of a workload.

    Attributes:
        source, target: the two dictionaries.
        tiny: one tiny batch for the warm-up.
        batches: the batches of the workload.
    """

    source: Dictionary
    target: Dictionary
    tiny: list[dict]
    batches: list[dict]


def sentences(setting: Setting, split: str) -> Sentences:
    """Make or read the sentences of a setting, on its device.

    Args:
        setting: sizes, data folder and device.
        split: the split to read if the setting has a data folder.
    Raises:
        UserError: if the data cannot be read.
    """
    if setting.data is None:
        source = target = random_dictionary(setting.words)
        batches = [random_batch(source, setting.sentences, setting.length)]
    else:
        task = read_task(setting.data)
        source, target = task.source_dictionary, task.target_dictionary
        batches = real_batches(task, split, setting.sentences, setting.batches)
    tiny = [random_batch(min(source, target, key=len), *TINY)]
    tiny, batches = (
        [to_device(batch, setting.device) for batch in some] for some in (tiny, batches)
    )
    return Sentences(source, target, tiny, batches)


def random_dictionary(vocab_size: int) -> Dictionary:
    """A dictionary of ``vocab_size`` symbols, fairseq's special symbols included."""
    dictionary = Dictionary()
    for number in range(vocab_size - len(dictionary)):
        dictionary.add_symbol(f"w{number}")
    return dictionary


def random_batch(dictionary: Dictionary, sentences: int, length: int) -> dict:
    """A batch in the format of fairseq's datasets, every source and target of the same length."""
    generator = torch.Generator().manual_seed(1)
    size = (sentences, length - 1)
    eos = torch.full((sentences, 1), dictionary.eos())
    source, target = (
        torch.cat(
            [torch.randint(dictionary.nspecial, len(dictionary), size, generator=generator), eos],
            dim=1,
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
    """fairseq's translation task for a folder written by fairseq-preprocess.

    Raises:
        UserError: if the folder cannot be read as one.
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
    task: TranslationTask, split: str, batch_size: int, number: int | None = None
) -> list[dict]:
    """Batches of a split in fairseq's random order, each of sentences of similar length.

    Args:
        task: the task of the data.
        split: e.g. ``train``.
        batch_size: sentences in a batch.
        number: how many batches to take, from the first (all).
    Raises:
        UserError: if the split does not exist or has fewer batches.
    """
    _load(task, split)
    iterator = task.get_batch_iterator(
        task.dataset(split),
        max_sentences=batch_size,
        max_positions=(1024, 1024),
        ignore_invalid_inputs=True,
        required_batch_size_multiple=1,
    )
    if number is not None and not 0 < number <= len(iterator):
        raise UserError(
            f"--batches is {number}, but the {split} set of {task.cfg.data} has {len(iterator)} "
            f"batches of {batch_size} sentences: ask for 1 to {len(iterator)}."
        )
    return list(islice(iterator.next_epoch_itr(shuffle=True), number))


def tokens_of_split(task: TranslationTask, split: str) -> tuple[list[list[str]], list[list[str]]]:
    """The tokens of all sources and of all targets of a split, without the ends of sentences.

    Raises:
        UserError: if the split does not exist.
    """
    _load(task, split)
    dataset = task.dataset(split)

    def tokens(side: Sequence[Tensor], dictionary: Dictionary) -> list[list[str]]:
        return [
            [dictionary[number] for number in side[i][:-1].tolist()] for i in range(len(dataset))
        ]

    return tokens(dataset.src, task.source_dictionary), tokens(dataset.tgt, task.target_dictionary)


def _load(task: TranslationTask, split: str) -> None:
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        raise UserError(f"There is no {split} set in {task.cfg.data}.") from error


def to_device(batch: dict, device: str) -> dict:
    """Move the tensors of a batch to a device."""
    return utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
