"""``convs2s plot-attention``: draw which source words each target word attends to.

Knows no family of models: it asks for what fairseq's generator asks for, the attention
(batch x target x source) beside a decoder's output.
"""

import argparse
import logging
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq import checkpoint_utils, utils
from torch import Tensor

from ..decoding.word_alignment import request_attention
from ..errors import UserError

CELL_INCHES = 0.36
LABEL_INCHES = 1.5
FORMATS = (".png", ".pdf", ".svg")


class Picture(NamedTuple):
    """One sentence pair: its tokens and the attention, target x source."""

    source: list[str]
    target: list[str]
    attention: Tensor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("sentences", nargs="+", metavar="SENTENCE", help="source, tokenised")
    parser.add_argument("--path", required=True, metavar="CHECKPOINT", help="a trained model")
    parser.add_argument("--data", required=True, help="folder of fairseq-preprocess (dictionaries)")
    parser.add_argument("--output", required=True, metavar="FILE", help="a .png, .pdf or .svg file")
    parser.add_argument("--bpe-codes", metavar="FILE", help="apply these codes of subword-nmt")
    parser.add_argument(
        "--target",
        action="append",
        metavar="TEXT",
        help="use this target instead of the model's translation (once for each sentence)",
    )
    parser.add_argument("--beam", type=int, default=5, help="beam size (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Write the picture; print the target of each sentence and the path."""
    if args.target is not None and len(args.target) != len(args.sentences):
        raise UserError(
            f"There are {len(args.sentences)} sentences and {len(args.target)} --target: "
            "give one --target for each sentence, or none."
        )
    if args.beam < 1:
        raise UserError(f"--beam is {args.beam}: it must be at least 1.")
    if Path(args.output).suffix.lower() not in FORMATS:
        raise UserError(f"--output is {args.output}: its name must end in {', '.join(FORMATS)}.")
    pyplot = _pyplot()
    encode = _bpe(args.bpe_codes) if args.bpe_codes else str.strip
    model, task = _load(args.path, args.data)
    pictures = []
    for number, sentence in enumerate(args.sentences, start=1):
        if not sentence.strip():
            raise UserError(f"Sentence {number} is empty.")
        target = encode(args.target[number - 1]) if args.target is not None else None
        pictures.append(attend(model, task, encode(sentence), target, args.beam))
        print(" ".join(pictures[-1].target[:-1]))
    figure = draw(pyplot, pictures)
    Path(args.output).parent.mkdir(parents=True, exist_ok=True)
    # The layout underestimates slanted labels; "tight" measures what was drawn.
    figure.savefig(args.output, dpi=150, bbox_inches="tight")
    pyplot.close(figure)
    print(args.output)
    return 0


@torch.no_grad()
def attend(model, task, source: str, target: str | None = None, beam: int = 5) -> Picture:
    """Translate a sentence and read the attention off a full pass over the result.

    Args:
        model: a fairseq encoder-decoder model in evaluation mode.
        task: its task, with dictionaries.
        source: words or sub-words separated by spaces.
        target: take this target instead of the model's translation.
        beam: beam size of the translation.

    Raises:
        UserError: the model returns no attention, or the text is too long for it.
    """
    source_ids = _ids(task.source_dictionary, source)
    # Some decoders can go on past their last position, others stop with an error.
    source_limit, target_limit = utils.resolve_max_positions(
        task.max_positions(), model.max_positions()
    )
    _refuse_longer("source", source_ids, source_limit)
    net_input = {
        "src_tokens": source_ids.unsqueeze(0),
        "src_lengths": torch.tensor([len(source_ids)]),
    }
    if target is None:
        search = argparse.Namespace(beam=beam)
        generator = task.build_generator([model], search)
        target_ids = task.inference_step(generator, [model], {"net_input": net_input})
        target_ids = target_ids[0][0]["tokens"]
        target_tokens = [task.target_dictionary[index] for index in target_ids]
    else:
        target_ids = _ids(task.target_dictionary, target)
        target_tokens = [*target.split(), task.target_dictionary.eos_word]
    _refuse_longer("target", target_ids, target_limit)
    previous = torch.cat([target_ids[-1:], target_ids[:-1]]).unsqueeze(0)
    request_attention([model], True)
    extra = model(prev_output_tokens=previous, **net_input)[1]
    attention = extra if isinstance(extra, Tensor) else (extra or {}).get("attn")
    if isinstance(attention, (list, tuple)):
        attention = attention[0]
    if attention is None:
        raise UserError(f"{type(model).__name__} returns no attention: there is nothing to draw.")
    return Picture(
        [*source.split(), task.source_dictionary.eos_word], target_tokens, attention[0].float()
    )


def draw(pyplot, pictures: list[Picture]):
    """Draw one panel for each picture, all on one scale, and return the figure."""
    columns = 1 if len(pictures) == 1 else 2
    rows = [pictures[start : start + columns] for start in range(0, len(pictures), columns)]
    widths = [
        max(len(picture.source) for picture in pictures[column::columns])
        for column in range(columns)
    ]
    heights = [max(len(picture.target) for picture in row) for row in rows]
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
    strongest = max(float(picture.attention.max()) for picture in pictures)
    panels = axes.flat
    for picture, axis in zip(pictures, panels):
        image = _panel(axis, picture, strongest)
    for axis in panels:
        axis.axis("off")
    bar = figure.colorbar(image, ax=axes, shrink=0.6, aspect=30, pad=0.02)
    bar.set_label("attention", fontsize=8, color="0.35")
    bar.ax.tick_params(labelsize=7, length=0, colors="0.35")
    bar.outline.set_visible(False)
    return figure


def _panel(axis, picture: Picture, strongest: float):
    image = axis.imshow(picture.attention.numpy(), cmap="Blues", vmin=0.0, vmax=strongest)
    axis.set_yticks(range(len(picture.target)), picture.target)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelsize=9)
    pinned = {"rotation": 45, "ha": "left", "va": "center", "rotation_mode": "anchor"}
    axis.set_xticks(range(len(picture.source)), picture.source, **pinned)
    axis.set_xticks([x - 0.5 for x in range(len(picture.source) + 1)], minor=True)
    axis.set_yticks([y - 0.5 for y in range(len(picture.target) + 1)], minor=True)
    axis.grid(which="minor", color="white", linewidth=1.5)
    axis.tick_params(which="minor", length=0)
    axis.spines[:].set_visible(False)
    return image


def _pyplot():
    # fairseq turns on everybody's debugging messages; matplotlib has thousands.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            'Drawing needs matplotlib: run `pip install "convs2s-plugin[plot]"`.'
        ) from None
    # A server has no display.
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def _bpe(codes: str):
    from subword_nmt.apply_bpe import BPE

    try:
        with open(codes, encoding="utf-8") as lines:
            return BPE(lines).process_line
    except OSError as error:
        raise UserError(f"The BPE codes {codes} cannot be read: {error.strerror}.") from error


def _load(path: str, data: str):
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    if not Path(data).is_dir():
        raise UserError(f"There is no folder {data}: --data is what fairseq-preprocess wrote.")
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": data}
        )
    except RuntimeError as error:
        if "size mismatch" not in str(error):
            raise
        raise UserError(
            f"{path} does not fit the dictionaries in {data}: it was trained on other data."
        ) from error
    return models[0].eval(), task


def _ids(dictionary, text: str) -> Tensor:
    return dictionary.encode_line(text, add_if_not_exist=False).long()


def _refuse_longer(side: str, ids: Tensor, limit: int) -> None:
    if len(ids) > limit:
        raise UserError(
            f"A {side} sentence has {len(ids)} tokens with its end of sentence; "
            f"this model takes at most {limit}."
        )
