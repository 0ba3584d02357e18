"""The environment variable that leaves fairseq as it is."""

import os

from convs2s.common.errors import UserError

VARIABLE = "CONVS2S_COMPAT"


def enabled() -> bool:
    """Whether this package may change fairseq: CONVS2S_COMPAT is not 0.

    Raises:
        UserError: if the variable is neither 0 nor 1.
    """
    value = os.environ.get(VARIABLE, "1")
    if value not in ("0", "1"):
        raise UserError(
            f"The environment variable {VARIABLE} is '{value}', but must be 0, which leaves "
            "fairseq as it is, or 1."
        )
    return value == "1"
