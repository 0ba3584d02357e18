"""The steps of the examples: prepare text, train, translate and score."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from convs2s.common.installation import plugin_folder
from convs2s.text import Preparation, prepare_tokens

from .inputs import read_text
from .runner import Runner
from .training import device_options, run_training

USER_DIR = plugin_folder()


class Recipe(Runner):
    """The steps of an example, in one output folder.

    Args:
        out: the output folder. If a recipe made it before, its content is removed.
    """

    def __init__(self, out: Path):
        super().__init__(out)
        self.data_bin = self.out / "data-bin"

    def binarize(self, text: Path, languages: tuple[str, str], merges: int) -> None:
        """Learn BPE on both languages, apply it, and write fairseq's format to OUT/data-bin.

        Args:
            text: a folder of SPLIT.LANGUAGE: train, valid and test.
            languages: source and target.
            merges: number of BPE merges; the codes are written to OUT/codes.bpe.
        """
        self.step(f"Sub-words ({merges:,} merges, learned on both languages) and binarized data")
        prepare_tokens(text, languages, ["test"], self.out, merges, joined=True)

    def prepare(
        self, out: Path, texts: Mapping[str, Sequence[Path]], *options: object, show: bool = False
    ) -> Preparation:
        """Prepare text with ``convs2s prepare``.

        Args:
            out: its output folder.
            texts: split -> a file of each language. Without valid and test, pairs of train are
                held out.
            options: further options of the command.
            show: whether to print what it prints.
        Returns:
            The preparation, whose ``folder`` is OUT.
        """
        files = [item for split, paths in texts.items() for item in (f"--{split}", *paths)]
        self.run(
            out.name,
            ["convs2s", "prepare", *files, "--out", out, "--workers", 1, *options],
            watch=self.echo if show else None,
        )
        return Preparation.read(out)

    def train(
        self,
        title: str,
        updates: int,
        options: list[object],
        data: Path | None = None,
        name: str = "",
    ) -> Path:
        """Run fairseq-train and print its progress.

        Args:
            title: the model's name, for the progress.
            updates: number of updates.
            options: options of fairseq-train.
            data: folder of the binarized data (default: OUT/data-bin).
            name: suffix of the names of the log and of the folder of the checkpoints.
        Returns:
            The last checkpoint.
        """
        suffix = f".{name}" if name else ""
        folder = self.out / f"checkpoints{suffix}"
        command = ["fairseq-train", data or self.data_bin]
        command += ["--user-dir", USER_DIR, *options, "--max-update", updates, "--save-dir", folder]
        run_training(self, title, command, f"train{suffix}", updates)
        return folder / "checkpoint_last.pt"

    def translate(
        self, checkpoint: Path, source: Path, output: Path, *options: object
    ) -> list[str]:
        """Translate a file with ``convs2s translate``.

        Args:
            checkpoint: the model.
            source: the file.
            output: file for the translations.
            options: further options of the command.
        Returns:
            One translation for each line.
        """
        self.run(
            f"translate.{output.name}",
            ["convs2s", "translate", "--path", checkpoint, "--input", source, "--output", output]
            + [*options],
        )
        return read_text(output)

    def bleu(self, reference: Path, translations: Path) -> str:
        """Score translations with sacreBLEU.

        Returns:
            BLEU, with two decimals.
        """
        output = self.out / f"{translations.name}.bleu"
        self.run(
            f"sacrebleu.{translations.name}",
            ["sacrebleu", reference, "-i", translations, "-m", "bleu", "-b", "-w", 2, "--force"],
            stdout=output,
        )
        return output.read_text(encoding="utf-8").strip()

    def parameters(self, name: str) -> str:
        """The number of parameters that fairseq-train printed in a log."""
        log = (self.logs / f"{name}.log").read_text(encoding="utf-8")
        return re.search(r"num\. shared model params: ([\d,]+)", log)[1]

    def generate(self, checkpoint: Path, subset: str, output: Path) -> None:
        """Translate a split with fairseq-generate and beam 5, and write its stdout to a file."""
        self.run(
            output.stem,
            ["fairseq-generate", self.data_bin, "--user-dir", USER_DIR, *device_options()]
            + ["--path", checkpoint, "--gen-subset", subset]
            + ["--beam", 5, "--max-tokens", 4000, "--remove-bpe"],
            stdout=output,
        )
