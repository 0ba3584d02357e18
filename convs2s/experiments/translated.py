"""Training data from the translations of other systems: distillation and back-translation."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..common.text_files import read_sentences
from ..evaluation.nbest import OF_FAIRSEQ
from ..text.binarize import training_folders, write_numbers
from ..text.vocabulary import Vocabulary
from .commands import Data

# An output of fairseq-generate, and the languages that it translates from and to.
Translated = tuple[Path, str, str]


def write_training_data(
    folder: Path, data: Data, translated: Sequence[Translated], text: bool
) -> None:
    """Write binarized data to train on, in place of an earlier folder.

    fairseq-train reads ``train``, ``train1``, ``train2`` and so on of a folder as one text.

    Args:
        folder: the folder to write to.
        data: the data of the experiment, of which the new one has dictionaries, validation text,
            and segmentations of the training text.
        translated: translations of the training text.
        text: the new data has the pairs of the training text, too.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shards = training_folders(data.bin) if text else [data.bin]
    for shard in shards:
        place = folder / shard.relative_to(data.bin)
        place.mkdir(parents=True)
        for path in shard.iterdir():
            is_train = path.name.startswith("train")
            if path.is_file() and (text if is_train else not path.name.startswith("test")):
                (place / path.name).symlink_to(path)
    symbols = {
        language: Vocabulary.load(data.bin / f"dict.{language}.txt")
        for language in (data.source, data.target)
    }
    number = 0
    for output, *languages in translated:
        while text and any(data.bin.glob(f"{_name(number)}.{data.pair}.*")):
            number += 1
        for side, language in enumerate(languages):
            vocabulary = symbols[language]
            name = f"{_name(number)}.{data.pair}.{language}"
            lines = (pair[side] for pair in pairs(output))
            write_numbers(folder / name, map(vocabulary.encode_line, lines), len(vocabulary))
            for shard in shards[1:]:
                for file in (f"{name}.bin", f"{name}.idx"):
                    (folder / shard.relative_to(data.bin) / file).symlink_to(folder / file)
        number += 1


def pairs(output: Path) -> Iterator[tuple[str, str]]:
    """The source and the translation of each hypothesis in an output of fairseq-generate."""
    source = ""
    for match in map(OF_FAIRSEQ.fullmatch, read_sentences(str(output))):
        if match and match[1] == "S":
            source = match[3]
        elif match and match[1] == "H":
            yield source, match[3].partition("\t")[2]


def _name(number: int) -> str:
    return f"train{number or ''}"
