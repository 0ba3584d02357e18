"""Traces of networks, and the layers that are to blame where they fail."""

import inspect
import re
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram, export

from ...common.errors import UserError
from ...models.interface import Network

FIXED_SIZE = (
    "it computes with the size of one batch, as `len(x)` and `int(x.size(1))` do, and not with "
    "that of any batch, `x.size(1)`"
)


def _has_one_value(size: torch.SymInt) -> bool:
    node = size.node
    return bool(node.shape_env.bound_sympy(node.expr).is_singleton())


class LayerWatch:
    """Finds the layer that is to blame for a trace that fails.

    Args:
        network: has the layers.
    """

    def __init__(self, network: Network):
        self.layers = {
            name: module
            for name, module in network.named_modules()
            if "context" in inspect.signature(module.forward).parameters
        }
        # The name of each layer that has started, and its sizes that may differ.
        self.entered: list[tuple[str, list[torch.SymInt]]] = []
        self.specializing: str | None = None

    def __enter__(self) -> "LayerWatch":
        self.handles = []
        for name, module in self.layers.items():
            self.handles += [
                module.register_forward_pre_hook(partial(self.enter, name)),
                module.register_forward_hook(self.leave),
            ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def enter(self, name: str, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Remember a layer that starts."""
        sizes = [size for size in inputs[0].shape if isinstance(size, torch.SymInt)]
        self.entered.append((name, sizes))

    def leave(self, *_: object) -> None:
        """Forget it, unless a size that may differ has become a single value."""
        name, sizes = self.entered.pop()
        if self.specializing is None and any(map(_has_one_value, sizes)):
            self.specializing = name

    def trace(self, module: nn.Module, inputs: tuple[Any, ...], shapes: Any) -> ExportedProgram:
        """Trace a module; arguments are those of ``torch.export``.

        Raises:
            UserError: if it cannot be traced.
        """
        self.entered, self.specializing = [], None
        try:
            return export(
                module.eval(),
                inputs,
                dynamic_shapes=shapes,
                strict=False,
                prefer_deferred_runtime_asserts_over_guards=True,
            )
        except Exception as error:
            if self.specializing:
                name, reason = self.specializing, FIXED_SIZE
            else:
                first, *_ = str(error).strip().splitlines()
                place = re.search(r"Caused by: \((.+?)\)", str(error))
                name = self.entered[-1][0] if self.entered else ""
                reason = f"{type(error).__name__}: {first.rstrip('.')}"
                reason += f" ({place.group(1)})" if place else ""
            where = f" because of {name} ({type(self.layers[name]).__name__})" if name else ""
            raise UserError(f"The network cannot be exported{where}: {reason}.") from error
