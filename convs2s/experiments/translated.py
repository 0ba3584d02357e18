"""Training data from the translations of other systems: distillation and back-translation."""

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from ..common.text_files import read_sentences
from ..evaluation.nbest import OF_FAIRSEQ
from ..text.binarize import training_folders, write_numbers
from ..text.vocabulary import Vocabulary
from .commands import Data

# The sentences of pairs: language -> what reads them.
Pairs = dict[str, Callable[[], Iterable[str]]]
# Precedes back-translations. The dictionaries lack it, so models read <unk>.
TAG = "<back-translated>"


def write_training_data(folder: Path, data: Data, translated: Sequence[Pairs], text: bool) -> None:
    """Write binarized data to train on, in place of an earlier folder.

    fairseq-train reads ``train``, ``train1``, ``train2`` and so on of a folder as one text.

    Args:
        folder: the folder to write to.
        data: the data of the experiment, whose dictionaries, validation text, and segmentations of
            the training text the new data has.
        translated: pairs of sentences and their translations.
        text: whether the new data has the pairs of the training text as well.
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
    for read in translated:
        while text and any(data.bin.glob(f"{_name(number)}.{data.pair}.*")):
            number += 1
        for language, vocabulary in symbols.items():
            name = f"{_name(number)}.{data.pair}.{language}"
            lines = map(vocabulary.encode_line, read[language]())
            write_numbers(folder / name, lines, len(vocabulary))
            for shard in shards[1:]:
                for file in (f"{name}.bin", f"{name}.idx"):
                    (folder / shard.relative_to(data.bin) / file).symlink_to(folder / file)
        number += 1


def translated_pairs(output: Path, source: str, target: str) -> Pairs:
    """The pairs in an output of fairseq-generate.

    Args:
        output: the file.
        source, target: the languages that it translates from and to.
    """
    return {
        source: lambda: (pair[0] for pair in _pairs(output)),
        target: lambda: (pair[1] for pair in _pairs(output)),
    }


def back_translated_pairs(output: Path, data: Data, tag: bool) -> Pairs:
    """The pairs of monolingual text and its translations.

    Args:
        output: the translations, line by line.
        data: the data of the experiment, with the monolingual text.
        tag: whether each translation begins with TAG.
    """
    text, begin = str(data.monolingual), f"{TAG} " if tag else ""
    return {
        data.source: lambda: (begin + line for line in read_sentences(str(output))),
        data.target: lambda: read_sentences(text),
    }


def _pairs(output: Path) -> Iterator[tuple[str, str]]:
    """The source and the translation of each hypothesis in an output of fairseq-generate."""
    source = ""
    for match in map(OF_FAIRSEQ.fullmatch, read_sentences(str(output))):
        if match and match[1] == "S":
            source = match[3]
        elif match and match[1] == "H":
            yield source, match[3].partition("\t")[2]


def _name(number: int) -> str:
    return f"train{number or ''}"
