"""The models of ``convs2s plot-attention``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import checkpoint_utils

from convs2s_plugin.compat.messages import is_unknown_model

from ..common.errors import UserError
from ..translation.buffers import TextProcessor
from ..translation.loading import Languages, find_dictionaries, read_checkpoint
from ..translation.text import find_places, find_text


class Loaded(NamedTuple):
    """A model and its task."""

    model: Any
    task: Any


def load(
    paths: Sequence[str], data: str | None, languages: Languages, text: TextProcessor | None
) -> tuple[list[Loaded], TextProcessor]:
    """Load models, and find the processing of their text as ``convs2s translate`` does.

    Args:
        paths: checkpoints of models with the same dictionaries.
        data: the folder of the dictionaries; None to find it from the first checkpoint.
        languages: the source and the target language; None for those of the checkpoint or data.
        text: what ``given_text`` returned.
    Raises:
        UserError: if a checkpoint, the dictionaries or the preparation cannot be read or do not
            fit.
    """
    if data is None:
        places = find_places(paths[0], None, languages, text)
        folder, *languages_found = find_dictionaries(read_checkpoint(paths[0]), places)
        data, languages = str(folder), (languages_found[0], languages_found[1])
    models = [load_model(path, data, languages) for path in paths]
    options = models[0].task.cfg
    found = find_text(text, paths[0], Path(data), (options.source_lang, options.target_lang))
    return models, found


def load_model(path: str, data: str, languages: Languages = (None, None)) -> Loaded:
    """Load one model.

    Args:
        path: the checkpoint.
        data: the folder of the dictionaries.
        languages: the source and the target language; None for those of the checkpoint or data.
    Raises:
        UserError: if a file is missing, the model is unknown, or the dictionaries do not fit.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    if not Path(data).is_dir():
        raise UserError(f"There is no folder {data}: --data is the folder of the dictionaries.")
    named = dict(zip(("source_lang", "target_lang"), languages))
    overrides = {name: value for name, value in named.items() if value is not None}
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": data, **overrides}
        )
    except (AssertionError, LookupError) as error:
        if not is_unknown_model(error):
            raise
        raise UserError(
            f"{path} has a model that is unknown here: give the package that defines it with "
            "--user-dir."
        ) from error
    except RuntimeError as error:
        if "Neither args nor cfg" in str(error):
            raise UserError(
                f"{path} is not a checkpoint of fairseq-train: it has no options."
            ) from error
        if "size mismatch" not in str(error):
            raise
        raise UserError(
            f"{path} was trained with other dictionaries than those in {data}."
        ) from error
    return Loaded(models[0].eval(), task)
