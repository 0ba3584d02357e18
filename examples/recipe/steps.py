"""The steps of the examples: prepare text, train, translate and score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from convs2s.common.installation import plugin_folder
from convs2s.text import Preparation

from .inputs import read_text
from .runner import Runner
from .training import run_training

USER_DIR = plugin_folder()


class Recipe(Runner):
    """The steps of an example, in one output folder."""

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

    def train(self, title: str, prepared: Path, updates: int, options: list[object]) -> Path:
        """Run fairseq-train and print its progress.

        Args:
            title: the model's name, for the progress.
            prepared: folder of the preparation; the checkpoints are written beside its data.
            updates: number of updates.
            options: options of fairseq-train.
        Returns:
            The last checkpoint.
        """
        folder = prepared / "checkpoints"
        command = ["fairseq-train", prepared / "data-bin", "--user-dir", USER_DIR, *options]
        command += ["--max-update", updates, "--save-dir", folder]
        run_training(self, title, command, updates)
        return folder / "checkpoint_last.pt"

    def translate(
        self, checkpoint: Path, source: Path, output: Path, *options: object
    ) -> list[str]:
        """Translate a file with ``convs2s translate``.

        Args:
            checkpoint: the model, or its folder.
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
