"""Limits of the sizes of models, and the check of an option against them."""

from .errors import UserError

# Layers of a stack; in ADL, those inside other layers count too, and a block has several.
MAX_LAYERS = 1000
MAX_ADL_LAYERS = 2000
MAX_WIDTH = 65536
MAX_HEADS = 1024
MAX_KERNEL_SIZE = 1023
MAX_POSITIONS = 10**6
MAX_INIT_GAIN = 100
# Tokens of the longest sentence of `convs2s adl verify`.
MAX_VERIFIED = 1000


def option_name(setting: str) -> str:
    """The command-line option that sets a field of a configuration."""
    return "--" + setting.replace("_", "-")


def check_range(name: str, value: float | None, low: float, high: float) -> None:
    """Check that a number is in its range.

    Args:
        name: what it is, such as an option.
        value: its value; None is allowed.
        low, high: the smallest and the largest allowed value.
    Raises:
        UserError: if it is out of range, or not a number.
    """
    if value is not None and not low <= value <= high:
        raise UserError(f"{name} is {value}, but must be from {low} to {high}.")


def check_at_least(options: object, **least: int) -> None:
    """Check that options are not too small: ``check_at_least(args, beam=1, workers=1)``.

    Args:
        options: has the values as attributes; None is allowed.
        least: the smallest allowed value of each option.
    Raises:
        UserError: if a value is smaller.
    """
    for name, low in least.items():
        value = getattr(options, name)
        if value is not None and value < low:
            raise UserError(f"{option_name(name)} is {value}: it must be at least {low}.")


def check_probability(name: str, value: float | None) -> None:
    """Check that a dropout probability is at least 0 and below 1; None is allowed.

    Raises:
        UserError: if it is not.
    """
    if value is not None and not 0.0 <= value < 1.0:
        raise UserError(f"{name} is {value}, but must be at least 0 and below 1.")
