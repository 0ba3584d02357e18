"""A model at work."""

from collections.abc import Callable
from typing import NamedTuple


class Workload(NamedTuple):
    """A model at work.

    Attributes:
        warm_up: processes a tiny batch, so that everything created only once exists afterwards.
        run: processes the batches of the setting.
        parameters: number of parameters of the model.
    """

    warm_up: Callable[[], object]
    run: Callable[[], object]
    parameters: int
