"""The captions of Multi30k in German and English, the data of several recipes."""

from __future__ import annotations

import gzip
import sys
import urllib.error
import urllib.request
from pathlib import Path

from recipe import Recipe

# fairseq's name of a split -> its name in the dataset.
SPLITS = {"train": "train", "valid": "val", "test": "test"}
LANGUAGES = ("de", "en")
PUBLISHED = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/tok/"
PUBLISHED_NAMES = {"train": "train", "val": "val", "test": "test_2016_flickr"}
BPE_MERGES = 6_000


def read_raw(folder: Path, split: str, language: str) -> str:
    """Read one language of a split from a folder of ``train|val|test.{de,en}.gz``."""
    path = folder / f"{split}.{language}.gz"
    try:
        return gzip.decompress(path.read_bytes()).decode("utf-8")
    except FileNotFoundError:
        sys.exit(f"There is no {path}: --raw-dir needs train, val and test.{{de,en}}.gz.")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        sys.exit(f"{path} is not gzipped UTF-8 text: {error}.")


def fetch(split: str, language: str) -> str:
    """Download one language of a split from the repository of the dataset."""
    address = f"{PUBLISHED}{PUBLISHED_NAMES[split]}.lc.norm.tok.{language}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            return answer.read().decode("utf-8")
    except (urllib.error.URLError, OSError) as error:
        sys.exit(
            f"{address} cannot be downloaded ({error}): use --raw-dir with a folder of train, val "
            "and test.{de,en}.gz."
        )


def write_text(recipe: Recipe, raw_dir: Path | None) -> None:
    """Write all splits to OUT/text, one sentence per line.

    Args:
        recipe: the recipe with the folder OUT.
        raw_dir: see ``read_raw``; None to download the captions.
    """
    recipe.step(f"The captions, from {raw_dir or PUBLISHED}")
    (recipe.out / "text").mkdir()
    for split, name in SPLITS.items():
        sides = [
            read_raw(raw_dir, name, language) if raw_dir else fetch(name, language)
            for language in LANGUAGES
        ]
        sides = [text if text.endswith("\n") else f"{text}\n" for text in sides]
        counts = [text.count("\n") for text in sides]
        if counts[0] != counts[1]:
            sys.exit(f"{name}.de has {counts[0]} lines, but {name}.en has {counts[1]}.")
        for language, text in zip(LANGUAGES, sides):
            (recipe.out / "text" / f"{split}.{language}").write_text(text, encoding="utf-8")
        recipe.say(f"  {split}: {counts[0]:,} sentence pairs")
