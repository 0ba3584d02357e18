"""The models of translations: their dictionaries and their networks."""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch

from ..checkpoints.dictionaries import TASK_STATE, check_dictionaries
from ..checkpoints.folders import split_names
from ..checkpoints.networks import Checkpoint, build_network
from ..common.errors import UserError
from ..models.interface import Network, Vocabularies
from ..text.vocabulary import Vocabulary
from .decoding import Model, NetworkModel

Languages = tuple[str | None, str | None]


class Places(NamedTuple):
    """Where the dictionaries of a model may be.

    Attributes:
        folders: folders to try, in this order.
        languages: the source and the target language; None for those of the checkpoint, or those in
            the names of binarized data, or those of the preparation.
        prepared: the languages of the preparation.
        with_training_data: whether to try the folder that the model was trained on as well.
    """

    folders: list[Path]
    languages: Languages = (None, None)
    prepared: Languages = (None, None)
    with_training_data: bool = True


@dataclass(frozen=True)
class Dictionaries:
    """The dictionaries of a model: a folder and two languages."""

    folder: Path
    source: str
    target: str

    @cached_property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """The vocabularies of both languages.

        Raises:
            UserError: if a file cannot be read.
        """
        source, target = map(Vocabulary.load, self.files)
        return source, target

    @property
    def languages(self) -> tuple[str, str]:
        """The source and the target language."""
        return self.source, self.target

    @property
    def files(self) -> tuple[Path, Path]:
        """The dictionaries of both languages."""
        return self.folder / f"dict.{self.source}.txt", self.folder / f"dict.{self.target}.txt"


def find_dictionaries(checkpoint: Checkpoint, places: Places) -> Dictionaries:
    """Find the first folder with the dictionaries of a checkpoint.

    Raises:
        UserError: if no folder has both dictionaries.
    """
    trained_on = split_names(str(checkpoint.task.get("data") or ""))[0]
    named = [*places.folders, *([Path(trained_on)] if trained_on else [])]
    tried = named if places.with_training_data else places.folders
    _check_languages(checkpoint, places.languages)
    for folder in tried:
        of_data = map(_languages_of_data, (folder, *named))
        known = [places.languages, checkpoint.languages, *of_data, places.prepared]
        source, target = (next(filter(None, each), None) for each in zip(*known))
        if source and target:
            found = Dictionaries(folder, source, target)
            if all(file.is_file() for file in found.files):
                return found
    names = (str(folder) if folder.name else "the current folder" for folder in tried)
    looked_in = ", ".join(dict.fromkeys(names))
    if source is None or target is None:
        raise UserError(
            f"The languages of {checkpoint.path} are unknown: neither the checkpoint nor file "
            f"names in {looked_in} have them. Give --source-lang and --target-lang, and the folder "
            "of the dictionaries with --data."
        )
    raise UserError(
        f"There are no dictionaries for {checkpoint.path}: dict.{source}.txt and dict.{target}.txt "
        f"are not both in {looked_in}. Give the folder of the binarized data with --data."
    )


def _check_languages(checkpoint: Checkpoint, given: Languages) -> None:
    """Check that languages that the user gave are those of a checkpoint."""
    for side, language, own in zip(("source", "target"), given, checkpoint.languages):
        if None not in (language, own) and language != own:
            source, target = checkpoint.languages
            raise UserError(
                f"--{side}-lang is {language}, but {checkpoint.path} translates from {source} to "
                f"{target}: omit the option."
            )


def _languages_of_data(folder: Path) -> Languages:
    """The languages in the names of binarized data, or None for each if there is none."""
    if folder.is_dir():
        for name in os.listdir(folder):
            parts = name.split(".")
            if len(parts) >= 3 and parts[1].count("-") == 1:
                source, _, target = parts[1].partition("-")
                return source, target
    return None, None


def check_words(checkpoint: Checkpoint, dictionaries: Dictionaries) -> None:
    """Check that dictionaries have the words that a model was trained with.

    Raises:
        UserError: if they do not, or a file cannot be read.
    """
    words = [vocabulary.symbols for vocabulary in dictionaries.vocabularies]
    check_dictionaries(checkpoint.state.get(TASK_STATE), words, checkpoint.path)


def load_model(checkpoint: Checkpoint, dictionaries: Dictionaries, device: torch.device) -> Model:
    """Build the network of a checkpoint, ready for generation.

    Args:
        checkpoint: the checkpoint.
        dictionaries: its dictionaries.
        device: the device.
    Raises:
        UserError: if the weights do not fit the dictionaries, or the model is of a family that this
            library does not have.
    """
    if checkpoint.family is None:
        raise UserError(
            f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, which is not one "
            "of this library's: load it with fairseq (load=convs2s_plugin.loading.load)."
        )
    return NetworkModel(load_network(checkpoint, dictionaries).to(device))


def load_network(checkpoint: Checkpoint, dictionaries: Dictionaries) -> Network:
    """The network of a checkpoint of this library, ready for generation.

    Args:
        checkpoint: its ``family`` must not be None.
        dictionaries: its dictionaries.
    Raises:
        UserError: if the weights do not fit the dictionaries.
    """
    check_words(checkpoint, dictionaries)
    source, target = dictionaries.vocabularies
    sizes = Vocabularies(len(source), len(target), target.pad(), target.eos(), target.bos())
    network = build_network(checkpoint, sizes)
    network.prepare_for_generation_()
    return network
