"""The declarations of the package's layers, one file for each kind; ``adl/layers`` has the modules.

Needs neither torch nor fairseq.
"""

from . import (  # noqa: F401
    attention,
    chains,
    convolution,
    gated_attention,
    gated_recurrence,
    light_convolution,
    linear_attention,
    macros,
    moving_average,
    positions,
    positionwise,
    recurrent,
)
