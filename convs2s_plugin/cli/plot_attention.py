"""``convs2s plot-attention``: plot the attention of each target token to the source tokens.

It works for all encoder-decoder models of this package and of fairseq that return attention.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor

from ..decoding.word_alignment import aligns_tokens, request_attention
from ..errors import UserError
from ..output_files import check_writable
from .plots import check_format, import_pyplot, save_figure

CELL_INCHES = 0.36
LABEL_INCHES = 1.5


class SentenceAttention(NamedTuple):
    """The attention of one sentence pair.

    Attributes:
        source: S source tokens.
        target: T target tokens.
        weights: attention weights T x S.
    """

    source: list[str]
    target: list[str]
    weights: Tensor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE", help="tokenized source")
    parser.add_argument("--path", required=True, metavar="CHECKPOINT", help="a trained model")
    parser.add_argument("--data", required=True, help="folder with the dictionaries of the model")
    parser.add_argument("--output", required=True, metavar="FILE", help="a .png, .pdf or .svg file")
    parser.add_argument("--bpe-codes", metavar="FILE", help="apply these codes of subword-nmt")
    parser.add_argument(
        "--target",
        action="append",
        metavar="TEXT",
        help="target to use instead of the model's translation, tokenized; once per sentence",
    )
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Write the plot; print the target of each sentence and the path of the plot."""
    if args.target is not None and len(args.target) != len(args.sentences):
        raise UserError(
            f"There are {len(args.sentences)} sentences and {len(args.target)} --target: "
            "give one --target for each sentence, or none."
        )
    if args.beam < 1:
        raise UserError(f"--beam is {args.beam}: it must be at least 1.")
    check_format(args.output)
    check_writable(args.output)
    pyplot = import_pyplot()
    apply_bpe = _load_bpe(args.bpe_codes) if args.bpe_codes else str.strip
    model, task = _load_model(args.path, args.data)
    attentions = []
    for number, sentence in enumerate(args.sentences, start=1):
        if not sentence.strip():
            raise UserError(f"Sentence {number} is empty.")
        target = apply_bpe(args.target[number - 1]) if args.target is not None else None
        source = apply_bpe(sentence)
        attentions.append(compute_attention(model, task, source, target, args.beam))
        print(" ".join(attentions[-1].target[:-1]))
    figure = plot(pyplot, attentions)
    # The constrained layout reserves too little space for rotated labels.
    save_figure(figure, args.output, bbox_inches="tight")
    pyplot.close(figure)
    print(args.output)
    return 0


@torch.no_grad()
def compute_attention(
    model, task, source: str, target: str | None = None, beam_size: int = 5
) -> SentenceAttention:
    """Compute the attention between a source sentence and a target in one forward pass.

    Args:
        model: an encoder-decoder model in evaluation mode.
        task: its translation task.
        source: source tokens, separated by spaces.
        target: target tokens, separated by spaces (default: the translation of the model).
        beam_size: beam size of the translation (5).
    Raises:
        UserError: if the model returns no attention, or if a sentence is too long for it.
    """
    source_ids = _encode(task.source_dictionary, source)
    source_limit, target_limit = utils.resolve_max_positions(
        task.max_positions(), model.max_positions()
    )
    _check_length("source", source_ids, source_limit)
    net_input = {
        "src_tokens": source_ids.unsqueeze(0),
        "src_lengths": torch.tensor([len(source_ids)]),
    }
    if target is None:
        generator = task.build_generator([model], argparse.Namespace(beam=beam_size))
        hypotheses = task.inference_step(generator, [model], {"net_input": net_input})
        target_ids = hypotheses[0][0]["tokens"]
        target_tokens = [task.target_dictionary[index] for index in target_ids]
    else:
        target_ids = _encode(task.target_dictionary, target)
        target_tokens = [*target.split(), task.target_dictionary.eos_word]
    # Some decoders continue beyond their last position without an error.
    _check_length("target", target_ids, target_limit)
    previous = torch.cat([target_ids[-1:], target_ids[:-1]]).unsqueeze(0)
    request_attention([model], True)
    if aligns_tokens([model]):
        net_input["target_tokens"] = target_ids.unsqueeze(0)
    _, extra = model(prev_output_tokens=previous, **net_input)
    # fairseq's fconv returns a tensor instead of a dictionary, and some models no list in it.
    weights = extra if isinstance(extra, Tensor) else (extra or {}).get("attn")
    if isinstance(weights, (list, tuple)):
        weights = weights[0]
    if weights is None:
        raise UserError(f"{type(model).__name__} returns no attention: there is nothing to plot.")
    return SentenceAttention(
        [*source.split(), task.source_dictionary.eos_word], target_tokens, weights[0].float()
    )


def plot(pyplot, attentions: list[SentenceAttention]):
    """Return a figure with one panel per sentence pair, all with the same color scale."""
    columns = 1 if len(attentions) == 1 else 2
    rows = [attentions[start : start + columns] for start in range(0, len(attentions), columns)]
    widths = [
        max(len(attention.source) for attention in attentions[column::columns])
        for column in range(columns)
    ]
    heights = [max(len(attention.target) for attention in row) for row in rows]
    figure, axes = pyplot.subplots(
        len(rows),
        columns,
        squeeze=False,
        layout="constrained",
        figsize=(
            CELL_INCHES * sum(widths) + LABEL_INCHES * columns + 0.8,
            CELL_INCHES * sum(heights) + LABEL_INCHES * len(rows),
        ),
        gridspec_kw={"width_ratios": widths, "height_ratios": heights},
    )
    max_weight = max(float(attention.weights.max()) for attention in attentions)
    panels = axes.flat
    for attention, axis in zip(attentions, panels):
        image = _plot_panel(axis, attention, max_weight)
    for axis in panels:
        axis.axis("off")
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("attention", fontsize=8, color="0.35")
    bar.ax.tick_params(labelsize=7, length=0, colors="0.35")
    bar.outline.set_visible(False)
    return figure


def _plot_panel(axis, attention: SentenceAttention, max_weight: float):
    image = axis.imshow(attention.weights.numpy(), cmap="Blues", vmin=0.0, vmax=max_weight)
    axis.set_yticks(range(len(attention.target)), attention.target)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=9)
    rotated = {"rotation": 45, "ha": "left", "va": "center", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(attention.source)), attention.source, **rotated)
    axis.set_xticks([x - 0.5 for x in range(len(attention.source) + 1)], minor=True)
    axis.set_yticks([y - 0.5 for y in range(len(attention.target) + 1)], minor=True)
    axis.grid(which="minor", color="white", linewidth=1.5)
    axis.tick_params(which="minor", length=0)
    axis.spines[:].set_visible(False)
    return image


def _load_bpe(codes: str):
    from subword_nmt.apply_bpe import BPE

    try:
        with open(codes, encoding="utf-8") as lines:
            return BPE(lines).process_line
    except OSError as error:
        raise UserError(f"The BPE codes {codes} cannot be read: {error.strerror}.") from error


def _load_model(path: str, data: str):
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    if not Path(data).is_dir():
        raise UserError(f"There is no folder {data}: --data is the folder of the dictionaries.")
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": data}
        )
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise UserError(
            f"{path} was trained with other dictionaries than those in {data}."
        ) from error
    return models[0].eval(), task


def _encode(dictionary, text: str) -> Tensor:
    return dictionary.encode_line(text, add_if_not_exist=False).long()


def _check_length(side: str, ids: Tensor, limit: int) -> None:
    if len(ids) > limit:
        raise UserError(
            f"A {side} sentence has {len(ids)} tokens, end of sentence included, but this model "
            f"allows at most {limit}."
        )
