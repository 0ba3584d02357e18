"""The attention of sentence pairs, for models of this package and of fairseq."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor

from convs2s_plugin.compat.messages import is_unknown_model
from convs2s_plugin.models import PluginModel
from convs2s_plugin.search.word_alignment import aligns_tokens, request_attention

from ..common.errors import UserError
from ..nn.attention_maps import MEAN, SOURCE, AttentionMap, AttentionMaps
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


class SentenceAttention(NamedTuple):
    """The attention of one model in one sentence pair.

    Attributes:
        source: S source tokens.
        target: T target tokens.
        maps: one row each. If layers attend to the source, the first map is the mean of all of
            them, "source.mean".
    """

    source: list[str]
    target: list[str]
    maps: AttentionMaps


@torch.no_grad()
def translate(model: Any, task: Any, source: str, beam_size: int = 5) -> str:
    """Translate a sentence.

    Args:
        model: an encoder-decoder model in evaluation mode.
        task: its translation task.
        source: source tokens, separated by spaces.
        beam_size: beam size (5).
    Returns:
        Target tokens, separated by spaces.
    """
    ids = _encode(model, task, source, "source")
    net_input = {"src_tokens": ids.unsqueeze(0), "src_lengths": torch.tensor([len(ids)])}
    generator = task.build_generator([model], argparse.Namespace(beam=beam_size))
    (best, *_), *_ = task.inference_step(generator, [model], {"net_input": net_input})
    symbols = task.target_dictionary
    return " ".join(symbols[i] for i in best["tokens"] if i != symbols.eos())


@torch.no_grad()
def compute_attention(model: Any, task: Any, source: str, target: str) -> SentenceAttention:
    """Compute the attention between a source sentence and a target in one forward pass.

    Args:
        model: an encoder-decoder model in evaluation mode.
        task: its translation task.
        source: source tokens, separated by spaces.
        target: target tokens, separated by spaces.
    Raises:
        UserError: if the model returns no attention, or if a sentence is too long for it.
    """
    source_ids = _encode(model, task, source, "source")
    target_ids = _encode(model, task, target, "target")
    src_tokens, src_lengths = source_ids.unsqueeze(0), torch.tensor([len(source_ids)])
    target_tokens = target_ids.unsqueeze(0)
    previous = target_tokens.roll(1, dims=1)
    if isinstance(model, PluginModel):
        maps = model.attention_maps(src_tokens, previous, target_tokens)
    else:
        maps = _returned_attention(model, src_tokens, src_lengths, previous, target_tokens)
    if not maps:
        raise UserError(f"{type(model).__name__} returns no attention: there is nothing to plot.")
    mean = maps.mean()
    if mean is not None and maps.of_kind(SOURCE)[0].layer != MEAN:
        description = "mean of all layers and heads"
        maps.insert(0, AttentionMap(SOURCE, MEAN, mean.unsqueeze(1), description))
    return SentenceAttention(
        [*source.split(), task.source_dictionary.eos_word],
        [*target.split(), task.target_dictionary.eos_word],
        maps,
    )


def _returned_attention(
    model: Any, src_tokens: Tensor, src_lengths: Tensor, previous: Tensor, target_tokens: Tensor
) -> AttentionMaps:
    """The attention that a model of fairseq or of another package returns from ``forward``."""
    request_attention([model], True)
    aligned = {"target_tokens": target_tokens} if aligns_tokens([model]) else {}
    _, extra = model(src_tokens, src_lengths, previous, **aligned)
    # fairseq's fconv returns a tensor instead of a dictionary, and some models no list in it.
    weights = extra if isinstance(extra, Tensor) else (extra or {}).get("attn")
    if isinstance(weights, (list, tuple)):
        weights = weights[0] if weights else None
    maps = AttentionMaps()
    if weights is not None:
        maps.add(SOURCE, weights.unsqueeze(1), "as the model returns it", MEAN)
    return maps


def _encode(model: Any, task: Any, text: str, side: str) -> Tensor:
    """The token indices of a sentence.

    Raises:
        UserError: if it is too long for the model; some decoders continue beyond their last
            position without an error.
    """
    dictionary = task.source_dictionary if side == "source" else task.target_dictionary
    ids = dictionary.encode_line(text, add_if_not_exist=False).long()
    limits = utils.resolve_max_positions(task.max_positions(), model.max_positions())
    limit = limits[0 if side == "source" else 1]
    if len(ids) > limit:
        raise UserError(
            f"A {side} sentence has {len(ids)} tokens, end of sentence included, but this model "
            f"allows at most {limit}."
        )
    return ids
