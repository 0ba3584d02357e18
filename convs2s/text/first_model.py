"""A command that trains a good first model for a text of some size."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .preparation import DATA, SIDES
from .workflow import CHECKPOINTS

# Positions of the models' embeddings, without the end of sentence and the padding before it.
MAX_TOKENS = 1022
# The fewest and the most epochs, and the sentence pairs to see.
EPOCHS, PAIRS = (20, 100), 500_000
CONVS2S = "--task convs2s_translation --criterion convs2s_cross_entropy --label-smoothing"
# A smoothed model of characters is so unsure of each that short outputs win the search.
SMOOTHING, SMOOTHING_OF_CHARACTERS = "0.1", "0.0"
CHARACTERS = (
    "Its tokens are characters: label smoothing is off, and `convs2s translate` should search with "
    "--beam 1, since the outputs of a wider beam may end too early."
)
ADAM = "--optimizer adam --lr-scheduler inverse_sqrt --clip-norm 1.0"


@dataclass(frozen=True)
class SizeClass:
    """A model for texts of some size.

    Attributes:
        least: smallest number of training pairs.
        arch: the architecture.
        options: options of fairseq-train.
        source: their origin, which is printed.
    """

    least: int
    arch: str
    options: str
    source: str


SIZE_CLASSES = (
    SizeClass(
        0,
        "convs2s_iwslt_de_en",
        f"--dropout 0.2 {ADAM} --lr 0.002 --warmup-updates 400 --max-tokens 2000",
        "with the options tuned on Multi30k (29,000 pairs)",
    ),
    SizeClass(
        100_000,
        "convs2s_iwslt_de_en",
        f"--dropout 0.2 {ADAM} --lr 0.001 --warmup-updates 4000 --max-tokens 4000 --max-epoch 30",
        "as for less text, but with larger batches and a longer warm-up",
    ),
    SizeClass(
        1_000_000,
        "convs2s_wmt_en_de",
        "--dropout 0.2 --optimizer nag --momentum 0.99 --lr 0.25 --clip-norm 0.1 "
        "--lr-scheduler reduce_lr_on_plateau --lr-shrink 0.1 --stop-min-lr 0.0001 "
        "--max-tokens 4000 --max-epoch 40",
        "with the model and the optimizer of Gehring et al. (2017) for WMT'14 English-German",
    ),
)


def training_command(content: dict[str, Any], out: Path) -> str:
    """The command, in several lines that a shell reads as one.

    Args:
        content: that of ``preparation.yaml``.
        out: its folder.
    """
    source, target = (content["languages"][side] for side in SIDES)
    pairs = content["pairs"]["train"]
    size = size_class(pairs)
    embeddings = " --share-all-embeddings" if content["subwords"]["joint"] else ""
    options = size.options
    if "--max-epoch" not in options:
        options += f" --max-epoch {epochs(pairs)}"
    held_out = [most for name, most in content["longest"].items() if name != "train"]
    if max(held_out) > MAX_TOKENS:
        options += " --skip-invalid-size-inputs-valid-test"
    of_characters = content["tokenizer"] == "characters"
    data, checkpoints = (shlex.quote(str(out / name)) for name in (DATA, CHECKPOINTS))
    lines = [
        f'fairseq-train {data} --user-dir "$(convs2s path)"',
        f"--source-lang {source} --target-lang {target} --save-dir {checkpoints}",
        f"--arch {size.arch}{embeddings}",
        f"{CONVS2S} {SMOOTHING_OF_CHARACTERS if of_characters else SMOOTHING}",
        *_wrapped(options),
        "--keep-last-epochs 5",
    ]
    return " \\\n  ".join(lines)


def size_class(pairs: int) -> SizeClass:
    """The class of a text."""
    return [one for one in SIZE_CLASSES if pairs >= one.least][-1]


def epochs(pairs: int) -> int:
    """Epochs for a small text: enough to see some hundred thousand pairs."""
    fewest, most = EPOCHS
    return max(fewest, min(most, PAIRS // pairs))


def _wrapped(options: str, width: int = 90) -> list[str]:
    """Lines of whole options."""
    lines = [""]
    for option in options.split(" --"):
        option = option if option.startswith("--") else f"--{option}"
        if len(lines[-1]) + len(option) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {option}".strip()
    return lines
