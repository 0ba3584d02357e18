"""Two pieces of work in turn (A B A B ...), and the ratio of their times pair by pair."""

import statistics
import time
from typing import Callable, Dict, List, NamedTuple


class Times(NamedTuple):
    """Seconds of each round of both, in order."""

    ours: List[float]
    peer: List[float]

    @property
    def ratios(self) -> List[float]:
        """How many times as long the peer took, round by round."""
        return [theirs / mine for mine, theirs in zip(self.ours, self.peer)]

    def summary(self) -> Dict[str, Dict[str, float]]:
        """Median, minimum and maximum of both and of their ratio."""
        columns = {"ours": self.ours, "peer": self.peer, "ratio": self.ratios}
        return {
            name: {
                "median": statistics.median(values),
                "minimum": min(values),
                "maximum": max(values),
            }
            for name, values in columns.items()
        }


def alternate(
    ours: Callable[[], object], peer: Callable[[], object], rounds: int, warmup: int = 2
) -> Times:
    """Run both in turn.

    Args:
        ours, peer: the work; what it returns is ignored.
        rounds: how many rounds count.
        warmup: how many rounds come before and do not count (2).
    """
    times = Times([], [])
    for number in range(warmup + rounds):
        for work, seconds in ((ours, times.ours), (peer, times.peer)):
            start = time.perf_counter()
            work()
            if number >= warmup:
                seconds.append(time.perf_counter() - start)
    return times
