"""``--int8``: generation with weights in 8 bits."""

import logging

import torch
from fairseq.models import BaseFairseqModel

from convs2s.common.errors import UserError
from convs2s.nn.int8 import is_supported
from convs2s_plugin.models import PluginModel

from .autocast import Precision

logger = logging.getLogger(__name__)


class Int8:
    """Whether models generate with weights in 8 bits.

    Args:
        wanted: whether ``--int8`` is given; quantized checkpoints do not need it.
        precision: the precision of ``--autocast-dtype``.
    """

    def __init__(self, wanted: bool, precision: Precision):
        self.wanted, self.precision = wanted, precision
        self._reported: set[str] = set()

    def check_training(self) -> None:
        """Refuse ``--int8`` in commands that compute a loss.

        Raises:
            UserError: if it is given.
        """
        if self.wanted:
            raise UserError(
                "--int8 is for generation: leave it out here, and give it to fairseq-generate, "
                "fairseq-interactive or `convs2s translate`."
            )

    def prepare_(self, model: BaseFairseqModel) -> None:
        """Quantize a model that is prepared for generation.

        Where 8 bits are not supported, this says so once, and the model computes in single
        precision.

        Raises:
            UserError: if the model is not one of this package, or with half precision.
        """
        if not self.wanted and not getattr(model, "quantized", False):
            return
        if not isinstance(model, PluginModel):
            raise UserError(
                f"--int8 needs a model of this package, but {type(model).__name__} is none: leave "
                "it out."
            )
        halves = {p.dtype for p in model.parameters()} & {torch.float16, torch.bfloat16}
        if self.precision.dtype is not None or halves:
            given = "--int8" if self.wanted else "A checkpoint in int8"
            raise UserError(
                f"{given} cannot be combined with half precision: leave out --autocast-dtype, "
                "--fp16 and --bf16."
            )
        reason = unsupported_on(next(model.parameters()).device)
        if reason is None:
            if not model.quantized:
                model.quantize_()
            return
        if model.quantized:
            model.dequantize_()
        if reason not in self._reported:
            self._reported.add(reason)
            logger.warning(f"{reason}: the model computes in single precision instead of int8.")


def unsupported_on(device: torch.device) -> str | None:
    """Why models on a device cannot compute in 8 bits; None if they can."""
    if device.type != "cpu":
        return "int8 is for CPUs, but the model is on a GPU"
    if not is_supported():
        return "torch finds neither the VNNI instructions of AVX-512 nor AMX in this CPU"
    return None
