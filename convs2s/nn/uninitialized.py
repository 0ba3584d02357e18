"""Networks that are built for their shapes, or to get the weights of a checkpoint."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

# The random functions that modes see; those inside them are not seen.
_RANDOM = {
    Tensor.normal_,
    Tensor.uniform_,
    nn.init.kaiming_uniform_,
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.xavier_normal_,
    nn.init.xavier_uniform_,
}


class WithoutInitialization(TorchFunctionMode):
    """In its body, modules are built without random initial weights, which takes no time.

    Until they are loaded, the weights are undefined.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the tensor that a random function should fill; call any other function."""
        kwargs = kwargs or {}
        if func in _RANDOM:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def computed(make: Callable[[], Tensor]) -> Tensor:
    """A constant or the initial values of a weight, computed on the CPU for the default device.

    On the device "meta", torch would import its compiler to compute, which takes seconds.

    Args:
        make: function that computes it from new tensors.
    """
    device = torch.get_default_device()
    with torch.device("cpu"):
        return make().to(device)


@contextmanager
def without_memory() -> Iterator[None]:
    """In its body, tensors have shapes, but no memory.

    Random functions on the device "meta" would also import the compiler of torch.
    """
    with torch.device("meta"), WithoutInitialization():
        yield
