"""Counters of energy in a folder like Linux's."""

import pytest

from convs2s.common.energy import EnergyMeter


def count(folder, **microjoules):
    """Set the counters of processors, and of a part of each."""
    for name, number in microjoules.items():
        for zone in (f"intel-rapl:{name[-1]}", f"intel-rapl:{name[-1]}:0"):
            (folder / zone).mkdir(exist_ok=True)
            (folder / zone / "energy_uj").write_text(f"{number}\n")
            (folder / zone / "max_energy_range_uj").write_text("10000000\n")


def test_the_energy_of_two_processors(tmp_path):
    count(tmp_path, cpu0=1_000_000, cpu1=9_000_000)
    meter = EnergyMeter(tmp_path)
    count(tmp_path, cpu0=3_000_000, cpu1=9_500_000)
    assert meter.joules() == pytest.approx(2.5)
    # The second counter starts again.
    count(tmp_path, cpu0=3_000_000, cpu1=250_000)
    assert meter.joules() == pytest.approx(0.75)
    assert meter.joules() == 0


def test_no_counters(tmp_path):
    assert EnergyMeter(tmp_path).joules() is None
    assert EnergyMeter(tmp_path / "missing").joules() is None


@pytest.mark.parametrize("text", ["", "many"])
def test_a_counter_that_cannot_be_read(tmp_path, text):
    count(tmp_path, cpu0=1, cpu1=1)
    (tmp_path / "intel-rapl:1/energy_uj").write_text(text)
    assert EnergyMeter(tmp_path).joules() is None
