"""Declarations of the package's own layers; ``module`` names the nn.Module that does the work.

Multiply-adds are those of matrix products; sums, gates and normalizations are not counted.
Knows neither torch nor fairseq.
"""

from . import attention, macros, pointwise, sequence

__all__ = ["attention", "macros", "pointwise", "sequence"]
