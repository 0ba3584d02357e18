"""The modules of the layers, one file for each kind; ``language/layers`` declares them.

A layer is built from its LayerSpec and called with x (B x T x C) and the Context of the pass. It
returns B x T x C'.
"""

from . import (  # noqa: F401  (attach the modules to the declarations)
    attention,
    chains,
    convolution,
    gated_attention,
    gated_recurrence,
    light_convolution,
    linear_attention,
    moving_average,
    multi_head_attention,
    positions,
    positionwise,
    recurrent,
)
