"""The precision in which models compute: half precision under ``torch.autocast``, and int8."""

import functools
import logging
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..common.errors import UserError
from ..nn.int8 import has_int8
from ..nn.int8 import is_supported as is_int8_supported
from ..nn.linear import WeightNormLinear

logger = logging.getLogger(__name__)

MATMUL_MODULES = (nn.Linear, nn.modules.conv._ConvNd, WeightNormLinear)
# Threads that share a model may each build a generator, which prepares it.
_preparing = threading.Lock()
# oneDNN's names of the dtypes of autocast.
ONEDNN_NAMES = {torch.bfloat16: "bf16", torch.float16: "fp16"}


@functools.cache
def is_supported(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether a device has instructions for a dtype of autocast.

    On a CPU, this is what oneDNN says: only with it does torch use such instructions. Old versions
    of torch cannot tell, and count as supporting them.
    """
    if device.type != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():
        return False
    check = f"_is_mkldnn_{ONEDNN_NAMES[dtype]}_supported"
    return not hasattr(torch.ops.mkldnn, check) or getattr(torch.ops.mkldnn, check)()


@torch.no_grad()
def cast_weights_(model: nn.Module, dtype: torch.dtype, extra: Iterable[Tensor] = ()) -> None:
    """Cast the weights of matrix multiplications in place, so that autocast need not cast them.

    Normalization layers, embeddings, position vectors and, except in recurrent networks, biases
    keep their precision.

    Args:
        model: a model for inference; training needs its weights in single precision.
        dtype: the dtype of autocast.
        extra: further weights of matrix multiplications, for example the embedding matrix of a
            tied output projection.
    """
    weights = [module.weight for module in model.modules() if isinstance(module, MATMUL_MODULES)]
    # Torch requires one dtype for all parameters of a recurrent network.
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            weights += module.parameters()
    for weight in [*weights, *extra]:
        if weight is not None:  # the weight of an unfolded weight normalization
            weight.data = weight.data.to(dtype)
    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            # On a GPU, the weights are again one block of memory.
            module.flatten_parameters()


class Precision:
    """The precision in which models compute.

    Args:
        name: one of AUTOCAST_DTYPES.
        int8: whether models generate with weights in 8 bits, where these are supported (False);
            quantized checkpoints always do, unless they have graphs (``compiled``).
        emulate: whether to compute in half precision even on a CPU without instructions for it
            (True). Otherwise models on such a CPU compute in single precision, and a warning says
            so.
    """

    def __init__(self, name: str, int8: bool = False, emulate: bool = True):
        self.dtype = None if name == "none" else getattr(torch, name)
        self.int8, self.emulate = int8, emulate
        self._reported: set[str] = set()

    def autocast(self, model: nn.Module) -> AbstractContextManager[None]:
        """The context manager for the forward passes of a model."""
        dtype, device = self._dtype_of(model), next(model.parameters()).device
        return nullcontext() if dtype is None else torch.autocast(device.type, dtype)

    def prepare_(self, model: Any, extra: Iterable[Tensor] = ()) -> None:
        """Quantize a model, or cast its weights, so that autocast need not cast them.

        Args:
            model: a model that is prepared for generation.
            extra: further weights of matrix products, such as that of a tied output layer.
        Raises:
            UserError: if a model in 8 bits is not one of this package, or also has half precision.
        """
        with _preparing:
            if self.int8 or getattr(model, "quantized", False):
                self._quantize_(model)
            dtype = self._dtype_of(model)
            if dtype is not None:
                cast_weights_(model, dtype, extra)

    def is_single(self, model: nn.Module) -> bool:
        """Whether a model that is prepared computes in single precision, without 8 bits."""
        if self._dtype_of(model) is not None or has_int8(model):
            return False
        return all(each.dtype == torch.float32 for each in model.parameters())

    def _dtype_of(self, model: nn.Module) -> torch.dtype | None:
        """The dtype of autocast for a model; None for single precision."""
        if self.dtype is None or self.emulate:
            return self.dtype
        if is_supported(self.dtype, next(model.parameters()).device):
            return self.dtype
        name = str(self.dtype).removeprefix("torch.")
        self._warn_once(
            f"--autocast-dtype {name}: this CPU has no instructions for {name}, and emulating "
            "them would take several times as long: the model computes in single precision."
        )
        return None

    def _quantize_(self, model: Any) -> None:
        if not hasattr(model, "quantize_"):
            raise UserError(
                f"--int8 needs a model of this package, but {type(model).__name__} is not one: "
                "omit it."
            )
        halves = {p.dtype for p in model.parameters()} & {torch.float16, torch.bfloat16}
        if self.dtype is not None or halves:
            given = "--int8" if self.int8 else "A checkpoint in int8"
            raise UserError(
                f"{given} cannot be combined with half precision: omit --autocast-dtype, --fp16 "
                "and --bf16."
            )
        reason = _unsupported_on(next(model.parameters()).device)
        if reason is not None:
            # Nobody asked for the 8 bits of a checkpoint, which may be there for its size.
            if self.int8:
                self._warn_once(
                    f"{reason}: the model computes in single precision instead of int8."
                )
            if model.quantized:
                model.dequantize_()
        elif not model.quantized:
            model.quantize_()

    def _warn_once(self, message: str) -> None:
        if message not in self._reported:
            self._reported.add(message)
            logger.warning(message)


def _unsupported_on(device: torch.device) -> str | None:
    """Why models on a device cannot compute in 8 bits; None if they can."""
    if device.type != "cpu":
        return "int8 is for CPUs, but the model is on a GPU"
    if not is_int8_supported():
        return "torch finds neither the VNNI instructions of AVX-512 nor AMX in this CPU"
    return None
