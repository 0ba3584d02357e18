"""``--autocast-dtype``: half precision under ``torch.autocast``, on any device."""

import logging
from contextlib import AbstractContextManager, nullcontext

import torch
from fairseq.optim import FairseqOptimizer
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from torch import nn

from convs2s.common.errors import UserError
from convs2s.nn.autocast import cast_weights_, is_supported
from convs2s.nn.int8 import dense

from ..search.output_layer import has_linear_output, output_layer_of

logger = logging.getLogger(__name__)


class Precision:
    """The precision of forward passes.

    Args:
        name: one of AUTOCAST_DTYPES.
        emulate: compute in half precision even on a CPU that has no instructions for it (True).
            Otherwise models on such a CPU compute in single precision, and a warning says so.
    """

    def __init__(self, name: str, emulate: bool = True):
        self.dtype = None if name == "none" else getattr(torch, name)
        self.emulate = emulate
        self._reported = False

    def autocast(self, model: nn.Module) -> AbstractContextManager[None]:
        """The context manager for the forward passes of a model."""
        dtype, device = self._dtype_of(model), next(model.parameters()).device
        return nullcontext() if dtype is None else torch.autocast(device.type, dtype)

    def cast_(self, model: nn.Module) -> None:
        """Cast the weights of a model for inference, so that autocast need not cast them."""
        dtype = self._dtype_of(model)
        if dtype is None:
            return
        linear = has_linear_output(model.decoder)
        tied = [dense(output_layer_of(model.decoder).weight)] if linear else []
        cast_weights_(model, dtype, tied)

    def _dtype_of(self, model: nn.Module) -> torch.dtype | None:
        """The dtype of autocast for a model; None for single precision."""
        if self.dtype is None or self.emulate:
            return self.dtype
        if is_supported(self.dtype, next(model.parameters()).device):
            return self.dtype
        if not self._reported:
            self._reported = True
            name = str(self.dtype).removeprefix("torch.")
            logger.warning(
                f"--autocast-dtype {name}: this CPU has no instructions for {name}, and emulating "
                "them would take several times as long: the model computes in single precision."
            )
        return None

    def check(self, optimizer: FairseqOptimizer) -> None:
        """Check that fairseq's own half precision is not used at the same time.

        Raises:
            UserError: if it is.
        """
        half_precision = (AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer)
        if self.dtype is not None and isinstance(optimizer, half_precision):
            raise UserError(
                "--autocast-dtype cannot be combined with --fp16, --memory-efficient-fp16 or --amp:"
                " leave one of them out."
            )
