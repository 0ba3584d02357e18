"""``--autocast-dtype``: half precision under ``torch.autocast``, on any device."""

from contextlib import AbstractContextManager, nullcontext

import torch
from fairseq.optim import FairseqOptimizer
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from torch import nn

from ..decoding.output_layer import has_linear_output, output_layer_of
from ..errors import UserError
from ..nn.autocast import cast_weights_
from ..nn.int8 import dense

CHOICES = ("none", "bfloat16", "float16")


class Precision:
    """The precision of forward passes.

    Args:
        name: one of CHOICES.
    """

    def __init__(self, name: str):
        self.dtype = None if name == "none" else getattr(torch, name)

    def autocast(self, model: nn.Module) -> AbstractContextManager[None]:
        """The context manager for the forward passes of a model."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(next(model.parameters()).device.type, self.dtype)

    def cast_(self, model: nn.Module) -> None:
        """Cast the weights of a model for inference, so that autocast need not cast them."""
        if self.dtype is None:
            return
        linear = has_linear_output(model.decoder)
        tied = [dense(output_layer_of(model.decoder).weight)] if linear else []
        cast_weights_(model, self.dtype, tied)

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
