"""``convs2s average``: one checkpoint with the mean of the weights of several."""

import argparse
from typing import Any

import torch

from ..checkpoints import save_checkpoint, unreadable_checkpoint
from ..errors import UserError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The names of fairseq's script for the same purpose, which its packages leave out."""
    parser.add_argument("--inputs", metavar="FILE", nargs="+", required=True, help="checkpoints")
    parser.add_argument("--output", metavar="FILE", required=True, help="where the average goes")


def run(args: argparse.Namespace) -> int:
    """Average and say what was made."""
    save_checkpoint(average(args.inputs), args.output)
    print(f"{args.output}: the average of {len(args.inputs)} checkpoints")
    return 0


def average(paths: list[str]) -> dict[str, Any]:
    """The mean of the weights of some checkpoints, summed in double precision.

    Args:
        paths: checkpoint files that fairseq-train wrote.
    Returns:
        The last checkpoint with averaged weights and without the optimiser's state; what is not
        a floating-point number is the last one's too.
    Raises:
        UserError: where a file cannot be read or holds weights of other names or shapes.
    """
    sums: dict[str, torch.Tensor] = {}
    shapes: dict[str, torch.Size] = {}
    for path in paths:
        checkpoint = _load(path)
        weights = checkpoint["model"]
        found = {name: tensor.shape for name, tensor in weights.items()}
        shapes = shapes or found
        if found != shapes:
            raise UserError(f"{path} holds another network than {paths[0]}: they have no average.")
        for name, tensor in weights.items():
            if tensor.is_floating_point():
                sums[name] = sums.get(name, 0.0) + tensor.double() / len(paths)
    for name, total in sums.items():
        weights[name] = total.to(weights[name].dtype)
    checkpoint["last_optimizer_state"] = None
    return checkpoint


def _load(path: str) -> dict[str, Any]:
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except Exception as error:
        raise unreadable_checkpoint(path, error) from error
    if not isinstance(checkpoint, dict) or "model" not in checkpoint:
        raise UserError(f"{path} is not a checkpoint of fairseq-train.")
    return checkpoint
