"""A large matrix multiplication, which runs at about the machine's full speed."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from convs2s.nn.linear import matmul_transposed

# Rows and columns of the large matrices.
SIZES = {"cpu": 2048, "cuda": 8192}
# Many CPUs multiply float16 about a hundred times slower than other types.
FLOAT16_SIZE_ON_CPU = 256
MATMUL_DTYPES = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "half": torch.float16,
}


class Matmul(NamedTuple):
    """One matrix multiplication as a function, and its floating-point operations."""

    run: Callable[[], torch.Tensor]
    flops: int


def large_matmul(dtype: str, device: str) -> Matmul:
    """A matrix multiplication that is large enough to run at about the machine's full speed.

    Args:
        dtype: one of setting.DTYPES; int8 needs a CPU.
        device: one of setting.DEVICES.
    """
    size = SIZES[device]
    if dtype == "int8":
        whole, other = (torch.randint(-128, 128, (size, size), dtype=torch.int8) for _ in range(2))
        return Matmul(lambda: torch._int_mm(whole, other), 2 * size**3)
    torch_dtype = MATMUL_DTYPES[dtype]
    if torch_dtype == torch.float16 and device == "cpu":
        size = FLOAT16_SIZE_ON_CPU
    left, right = (torch.randn(size, size, device=device).to(torch_dtype) for _ in range(2))
    return Matmul(lambda: matmul_transposed(left, right), 2 * size**3)
