"""What the commands that write plots share: matplotlib, and the formats of the files."""

import logging
from pathlib import Path
from typing import Any

from ..errors import UserError

FORMATS = (".png", ".pdf", ".svg")


def check_format(path: str) -> None:
    """Check that the name of a file is that of a plot.

    Raises:
        UserError: if it does not end in one of FORMATS.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"--output is {path}: its name must end in {', '.join(FORMATS)}.")


def import_pyplot() -> Any:
    """Import matplotlib.pyplot with a backend that needs no display.

    Raises:
        UserError: if matplotlib is not installed.
    """
    # Importing fairseq enables the debug messages of all libraries, and matplotlib has many.
    logging.getLogger("matplotlib").setLevel(logging.WARNING)
    try:
        import matplotlib
    except ImportError:
        raise UserError(
            'Plotting needs matplotlib: run `pip install "convs2s-plugin[plot]"`.'
        ) from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
