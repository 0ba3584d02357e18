"""From text to tokens and back: sub-words, or tokens as they are."""

from collections.abc import Sequence
from pathlib import Path

from ..checkpoints.networks import Checkpoint
from ..common.errors import UserError
from ..text.preparation import FILE_NAME, Preparation
from ..text.subwords import Tokenized, make_subwords
from .buffers import TextProcessor
from .loading import Dictionaries, Languages, Places, find_dictionaries

# What commands say if `find_text` found no preparation.
NOT_PREPARED = (
    "There is no preparation.yaml: the text is read as tokens separated by spaces (--raw)."
)


def given_text(
    preparation: str | Path | None, bpe_codes: str | Path | None, raw: bool
) -> TextProcessor | None:
    """The processing of text that options ask for, or None if they do not ask for any.

    Args:
        preparation: ``preparation.yaml`` or its folder (``--preparation``).
        bpe_codes: codes of subword-nmt (``--bpe-codes``).
        raw: whether the text is already tokenized (``--raw``).
    Raises:
        UserError: if more than one is given, or a file cannot be read.
    """
    options = {"--preparation": preparation, "--bpe-codes": bpe_codes, "--raw": raw}
    given = [option for option, value in options.items() if value]
    if len(given) > 1:
        raise UserError(f"{' and '.join(given)} exclude each other: give one of them.")
    if preparation:
        return Preparation.read(preparation)
    if bpe_codes:
        if not Path(bpe_codes).is_file():
            raise UserError(f"There is no file {bpe_codes} (--bpe-codes).")
        try:
            return make_subwords("subword_nmt", Path(bpe_codes))
        except UserError as error:
            raise UserError(f"{str(error).removesuffix('.')} (--bpe-codes).") from error
    return Tokenized() if raw else None


def find_preparation(folders: Sequence[Path]) -> Preparation | None:
    """The preparation in the first of these folders that has one, or None."""
    for folder in folders:
        if (folder / FILE_NAME).is_file():
            return Preparation.read(folder)
    return None


def find_places(
    path: str, data: str | Path | None, languages: Languages, text: TextProcessor | None
) -> Places:
    """Where the dictionaries of a model may be.

    Args:
        path: its checkpoint.
        data: the folder of the dictionaries (``--data``); None if it is not given.
        languages: the source and the target language (``--source-lang``, ``--target-lang``).
        text: what ``given_text`` returned.
    Raises:
        UserError: if the preparation beside the checkpoint cannot be read.
    """
    beside = Path(path).parent
    prepared = text or find_preparation(near(path))
    places = Places([beside], languages)
    if isinstance(prepared, Preparation):
        file: str = prepared.content["dictionaries"]["source"]["file"]
        places = places._replace(
            folders=[(prepared.folder / file).parent, beside],
            prepared=(prepared.source.language, prepared.target.language),
        )
    if data is not None:
        places = places._replace(folders=[Path(data)], with_training_data=False)
    return places


def own_dictionaries(
    checkpoint: Checkpoint, data: str | None, languages: Languages
) -> Dictionaries:
    """The dictionaries in a folder, or those that belong to a checkpoint.

    Args:
        checkpoint: the checkpoint.
        data: the folder; None to look where ``find_places`` does.
        languages: as for ``Places``.
    Raises:
        UserError: if they are not there.
    """
    return find_dictionaries(checkpoint, find_places(checkpoint.path, data, languages, None))


def target_text(text: TextProcessor) -> TextProcessor:
    """What makes tokens from translations; ``text`` itself makes them from source text."""
    found: TextProcessor = getattr(text, "target", text)
    return found


def find_text(text: TextProcessor | None, path: str, dictionaries: Dictionaries) -> TextProcessor:
    """The processing of text for a model: the one that options ask for, or the preparation near it.

    Args:
        text: what ``given_text`` returned.
        path: the checkpoint.
        dictionaries: its dictionaries.
    Returns:
        If there is no preparation, one that expects tokenized text.
    Raises:
        UserError: if the preparation cannot be read, or does not belong to the model.
    """
    data, languages = dictionaries.folder, dictionaries.languages
    found = text or find_preparation([*near(path), data, data.parent]) or Tokenized()
    if isinstance(found, Preparation):
        prepared = found.source.language, found.target.language
        if prepared != languages:
            raise UserError(
                f"{found.folder / FILE_NAME} prepares text for translation from "
                f"{' to '.join(prepared)}, but {path} translates from {' to '.join(languages)}: "
                "give the preparation of this model with --preparation, or --raw for tokenized "
                "text."
            )
        found.check_dictionaries(*dictionaries.files)
    return found


def near(path: str) -> list[Path]:
    """The folders where the preparation of a checkpoint may be."""
    # `convs2s prepare` suggests a folder of checkpoints inside its own.
    beside = Path(path).parent
    return [beside, beside.parent]
