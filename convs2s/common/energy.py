"""The energy that the processors of this machine use, by their counters (RAPL)."""

from pathlib import Path

# Where Linux shows the counters, those of AMD too; often, only root may read them.
FOLDER = Path("/sys/class/powercap")


class EnergyMeter:
    """Reads the counters of all processors, which count everything that runs on them.

    Args:
        folder: the folder of the counters.
    """

    def __init__(self, folder: Path = FOLDER):
        # Parts of a processor have a second colon, as in intel-rapl:0:1.
        paths = [path for path in folder.glob("intel-rapl:*") if path.name.count(":") == 1]
        self._last = {path: _microjoules(path / "energy_uj") for path in paths}

    def joules(self) -> float | None:
        """The energy since the last call, at first since the start; None if it cannot be read.

        A counter starts again at 0 after some minutes; calls must be closer to each other.
        """
        total = 0
        for path, before in self._last.items():
            now = _microjoules(path / "energy_uj")
            if before is None or now is None:
                return None
            self._last[path] = now
            wrapped = _microjoules(path / "max_energy_range_uj") or 0 if now < before else 0
            total += now - before + wrapped
        return total / 1e6 if self._last else None


def _microjoules(path: Path) -> int | None:
    """The number in a file; None if it cannot be read."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
