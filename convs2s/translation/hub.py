"""Trained models for ``torch.hub`` and ``from_pretrained``, with fairseq's interface.

    model = from_pretrained("prepared/checkpoints")
    model.translate("Zwei Hunde rennen.", beam=5)

A ``Translator`` reads the folder and translates.
"""

import argparse
import os
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

from fairseq.data.encoders.moses_tokenizer import MosesTokenizer, MosesTokenizerConfig
from fairseq.dataclass.configs import DatasetConfig, GenerationConfig
from fairseq.hub_utils import GeneratorHubInterface
from fairseq.utils import import_user_module
from omegaconf import OmegaConf

from ..common.archives import is_address
from ..common.errors import UserError
from .buffers import TextProcessor
from .download import download
from .options import OF_THE_SEARCH, EnsembleOptions
from .results import Translation
from .translator import Translator

# Tried in this order, in the folder of a model and in CHECKPOINTS below it.
CHECKPOINT_FILES = ("checkpoint_best.pt", "model.pt", "checkpoint_last.pt")
CHECKPOINTS = "checkpoints"
# Names of BPE codes in fairseq's archives.
BPE_CODES = ("bpecodes", "code")
# Arguments of fairseq's hub, and the values that are allowed here.
FAIRSEQ_VALUES = {
    "tokenizer": ("moses",),
    "bpe": ("subword_nmt",),
    "task": ("translation", "convs2s_translation"),
}

_OF_A_TRANSLATOR = (
    *("preparation", "bpe_codes", "raw", "source_lang", "target_lang", "workers", "buffer_size"),
    *(field.name for field in fields(EnsembleOptions)),
)
_OF_FAIRSEQ = (*FAIRSEQ_VALUES, "moses_no_dash_splits", "moses_no_escape", "user_dir")


class HubInterface(GeneratorHubInterface):
    """A trained model that translates text, with the methods of fairseq's GeneratorHubInterface.

    Args:
        translator: the models, and what makes tokens from text.
    Attributes:
        translator: the same.
        models: the models, more than one if they are an ensemble.
    """

    def __init__(self, translator: Translator):
        ensemble = translator.ensemble
        options = ensemble.options
        generation = GenerationConfig(
            **{name: getattr(options, name) for name in ("beam", "nbest", "lenpen", "max_len_b")},
            unnormalized=options.unnormalized,
            print_alignment="hard" if options.alignment else None,
        )
        dataset = DatasetConfig(max_tokens=options.max_tokens, batch_size=options.batch_size)
        cfg = {"generation": generation, "dataset": dataset, "tokenizer": None, "bpe": None}
        super().__init__(
            OmegaConf.create(
                {name: part and OmegaConf.structured(part) for name, part in cfg.items()}
            ),
            ensemble.task,
            ensemble.models,
        )
        self.to(ensemble.device)
        # ``encode`` and ``decode`` of the base class use it.
        self.bpe = translator.text
        self.translator = translator

    @overload
    def translate(self, sentences: str, beam: int | None = None, **options: Any) -> str: ...

    @overload
    def translate(
        self, sentences: Iterable[str], beam: int | None = None, **options: Any
    ) -> list[str]: ...

    def translate(
        self, sentences: str | Iterable[str], beam: int | None = None, **options: Any
    ) -> str | list[str]:
        """Translate text.

        Args:
            sentences: a line of text, or several.
            beam: beam size; None for that of the translator (5).
            options: of the search, as for ``translations``. With other options of fairseq's
                generator, such as ``sampling=True``, long lines are not split.
        Returns:
            The best translation of the line, or a list with that of each line.
        Raises:
            UserError: if an option has a value that is not allowed.
        """
        if isinstance(sentences, str):
            return self.translate([sentences], beam, **options)[0]
        if not options.keys() <= set(OF_THE_SEARCH):
            beam = beam or self.translator.ensemble.options.beam
            return super().translate(list(sentences), beam, **options)
        return [one.text for one in self.translations(sentences, beam, **options)]

    def sample(
        self, sentences: str | list[str], beam: int = 1, verbose: bool = False, **options: Any
    ) -> str | list[str]:
        """Do the same as ``translate`` with fairseq's generator and its options; beam 1."""
        result: str | list[str] = super().sample(sentences, beam, verbose, **options)
        return result

    def translations(
        self, lines: Iterable[str], beam: int | None = None, **options: Any
    ) -> list[Translation]:
        """Translate lines of text, with scores, n-best lists and alignments.

        Args:
            lines: lines of text.
            beam: beam size; None for that of the translator (5).
            options: ``nbest``, ``lenpen``, ``unnormalized``, ``max_len_b``, ``max_tokens``,
                ``batch_size`` and ``alignment``, as for ``Translator``.
        Returns:
            One ``Translation`` for each line.
        Raises:
            UserError: if an option is unknown or has a value that is not allowed.
        """
        if beam is not None:
            options["beam"] = beam
        return self.translator.with_options(**options).translate(lines)


class MosesText:
    """Text for fairseq's Moses tokenizer, whose tokens are then split into sub-words.

    Args:
        subwords: makes sub-words from tokens.
        languages: of source and target.
        options: ``moses_no_dash_splits`` and ``moses_no_escape``, as for fairseq.
    Raises:
        UserError: if sacremoses is not installed.
    """

    def __init__(self, subwords: TextProcessor, languages: tuple[str, str], **options: bool):
        source, target = languages
        config = MosesTokenizerConfig(source_lang=source, target_lang=target, **options)
        try:
            self._tokenizer = MosesTokenizer(config)
        except ImportError as error:
            raise UserError(
                "tokenizer='moses' needs sacremoses: run `pip install sacremoses`."
            ) from error
        self._subwords = subwords

    def encode(self, line: str) -> str:
        """The sub-words of a line, separated by spaces."""
        return self._subwords.encode(self._tokenizer.encode(line.strip()))

    def decode(self, tokens: str) -> str:
        """The text of sub-words."""
        text: str = self._tokenizer.decode(self._subwords.decode(tokens))
        return text


def from_pretrained(
    path: str | Path,
    checkpoint_file: str | None = None,
    data_name_or_path: str | None = None,
    model: type | None = None,
    **options: Any,
) -> HubInterface:
    """Load a trained model from its folder.

    Args:
        path: the folder of a training, that of ``convs2s prepare`` above it, or a checkpoint; or
            the address of an archive of such a folder, see ``download``.
        checkpoint_file: the checkpoint in the folder, or several separated by colons, which form an
            ensemble. By default, the first of ``CHECKPOINT_FILES`` in the folder or in
            ``checkpoints`` below it.
        data_name_or_path: the folder of the dictionaries; a path that starts with ``.`` is in the
            folder of the model, as in fairseq. By default, they are looked for as ``Translator``
            does.
        model: the class that the model must have; None for any.
        options: those of ``Translator``; by default, the device is the CPU. Also those of
            fairseq's hub: ``tokenizer="moses"``, ``bpe="subword_nmt"``, ``user_dir``; ``task``
            changes nothing.
    Raises:
        UserError: if a file cannot be read or does not fit, or an option is not allowed.
    """
    _check_options(options)
    if options.get("user_dir"):
        import_user_module(argparse.Namespace(user_dir=options["user_dir"]))
    folder = download(str(path)) if is_address(str(path)) else Path(path)
    paths = find_checkpoints(folder, checkpoint_file)
    given = {name: options[name] for name in options if name in _OF_A_TRANSLATOR}
    given.setdefault("device", "cpu")
    if data_name_or_path not in (None, "."):
        inside = str(data_name_or_path).startswith(".")
        given["data"] = folder / data_name_or_path if inside else data_name_or_path
    tokenizer, bpe = options.get("tokenizer"), options.get("bpe")
    if bpe is not None and not given.get("bpe_codes"):
        given["bpe_codes"] = _find_codes(paths[0].parent)
    if tokenizer is not None and not given.get("bpe_codes"):
        given["raw"] = True
    translator = Translator(paths, **given)
    if tokenizer is not None:
        moses = {name: options[name] for name in options if name.startswith("moses_")}
        translator.text = MosesText(translator.text, translator.languages, **moses)
    for loaded in translator.ensemble.models:
        if model is not None and not isinstance(loaded, model):
            raise UserError(
                f"{paths[0]} has a {type(loaded).__name__}, not a {model.__name__}: load it with "
                f"{type(loaded).__name__}.from_pretrained, or with the entry point translator of "
                "torch.hub, which loads models of every family."
            )
    return HubInterface(translator)


def find_checkpoints(path: Path, names: str | None = None) -> list[Path]:
    """The checkpoints of a model.

    Args:
        path: a folder or a checkpoint.
        names: files in the folder, or in ``checkpoints`` below it, separated by colons; None for
            the first of ``CHECKPOINT_FILES``.
    Raises:
        UserError: if there is no such file.
    """
    if path.is_file() and names is None:
        return [path]
    if not path.is_dir():
        raise UserError(f"There is no folder {path}, and no checkpoint of this name.")
    places = [path, path / CHECKPOINTS]
    if names is None:
        for place in places:
            for name in CHECKPOINT_FILES:
                if (place / name).is_file():
                    return [place / name]
        raise UserError(
            f"There is no checkpoint in {path}: none of {', '.join(CHECKPOINT_FILES)} is there or "
            f"in {path / CHECKPOINTS}. Name it with checkpoint_file."
        )
    found = []
    for name in names.split(os.pathsep):
        files = [place / name for place in places if (place / name).is_file()]
        if not files:
            raise UserError(f"There is no checkpoint {name} in {path} (checkpoint_file).")
        found.append(files[0])
    return found


def _find_codes(folder: Path) -> Path:
    for name in BPE_CODES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"bpe='subword_nmt' needs BPE codes: give bpe_codes, since {folder} has neither "
        f"{' nor '.join(BPE_CODES)}."
    )


def _check_options(options: dict[str, Any]) -> None:
    """Check the names of options, and the values of fairseq's.

    Raises:
        UserError: if one is not allowed.
    """
    allowed = {*_OF_A_TRANSLATOR, *_OF_FAIRSEQ}
    unknown = sorted(options.keys() - allowed)
    if unknown:
        raise UserError(
            f"{', '.join(unknown)} is not an option of a model that translates; allowed: "
            f"{', '.join(sorted(allowed))}."
        )
    for name, values in FAIRSEQ_VALUES.items():
        value = options.get(name)
        if value is not None and value not in values:
            raise UserError(
                f"{name}='{value}' is not available here; allowed: {', '.join(values)}. A model of "
                "text that `convs2s prepare` prepared needs none: its preparation.yaml is found."
            )
    if options.get("tokenizer") or options.get("bpe"):
        for name in ("preparation", "raw"):
            if options.get(name):
                raise UserError(f"{name} excludes tokenizer and bpe: give one of them.")


__all__ = ["HubInterface", "MosesText", "find_checkpoints", "from_pretrained"]
