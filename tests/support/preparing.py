"""``convs2s prepare`` on pairs of made-up sentences, and what it wrote."""

import hashlib
import random

from convs2s.cli import main

from .packed import PACK

WORDS = "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf Hunde rennen".split()
NONE = ("--tokenizer", "none", "--workers", "1")


def make_pairs(size=200, seed=1):
    """Different pairs of sentences with punctuation."""
    numbers = random.Random(seed)
    pairs = {}
    while len(pairs) < size:
        words = numbers.choices(WORDS, k=numbers.randint(3, 7))
        end = numbers.choice(".!")
        pairs[f"{' '.join(words)}{end}"] = f"The {', '.join(word[::-1] for word in words)}{end}"
    return list(pairs.items())


PAIRS = make_pairs()


def write_pairs(folder, name, pairs, suffix="", end="\n"):
    """Two files; their paths."""
    paths = []
    for language, lines in zip(("de", "en"), zip(*pairs)):
        path = folder / f"{name}.{language}{suffix}"
        path.write_bytes(PACK[suffix]("".join(f"{line}{end}" for line in lines).encode()))
        paths.append(str(path))
    return paths


def preparing(capsys):
    """A function that runs the command in this process and returns what it printed.

    The command must succeed, unless ``code`` is another exit code.
    """

    def run(*arguments, code=0):
        capsys.readouterr()
        assert main(["prepare", *map(str, arguments)]) == code
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run


def files(folder):
    """Path -> content of all files in a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def data(folder):
    """Path -> digest of the text and of the binarized data."""
    return {
        name: hashlib.sha256(content).hexdigest()
        for name, content in files(folder).items()
        if name.endswith((".bin", ".idx", ".txt", ".bpe")) or name.startswith(("text", "tokens"))
    }
