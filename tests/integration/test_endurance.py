"""``make endurance``: what it records, and what it refuses; the run itself takes an hour or two."""

import json

import pytest

from tests.support import endurance


def samples(memory, files=lambda second: 9):
    return [(float(second), memory(second), files(second)) for second in range(60)]


def test_what_grows_is_refused():
    endurance.check(samples(lambda second: 300.0 - second % 7))
    # What is loaded at the start is no leak.
    endurance.check(samples(lambda second: min(300.0, 10.0 * second)))
    with pytest.raises(AssertionError, match="memory grows by"):
        endurance.check(samples(lambda second: 100.0 + second))
    with pytest.raises(AssertionError, match="20 more files are open"):
        endurance.check(samples(lambda _: 300.0, lambda second: second))


@pytest.mark.slow
def test_a_short_run(tmp_path, monkeypatch):
    monkeypatch.setattr(endurance, "check", lambda samples: None)
    endurance.main(["--minutes", "0.1", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "endurance.json").read_text("utf-8"))
    assert (tmp_path / "endurance.png").stat().st_size > 1000
    for part in ("training", "translation"):
        seconds, memory, files = found[part]["samples"][-1]
        assert 1 < seconds < 7 and memory > 20 and files >= 3, part
