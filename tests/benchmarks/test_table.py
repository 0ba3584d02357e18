"""The command ``table``, and the tables in the documentation."""

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import pages, rows, table
from benchmarks.setting import Setting
from tests import ROOT
from tests.support.benchmark_runs import benchmark

SIZES = {"words": 60, "sentences": 2, "length": 4, "layers": 1}
MARKED = "<!-- table of benchmarks/results/{} -->\n{}<!-- end of table -->\n"


def tiny(arch, **options):
    return Setting(arch, **{**SIZES, **options})


@pytest.fixture
def tiny_rows(monkeypatch):
    """Three rows: the first reaches its floor, the second fails, the third is below its floor."""
    ours, peer = tiny("convs2s_iwslt_de_en"), tiny("fconv_iwslt_de_en")
    made = [
        rows.Row("train one", "train", ours, peer, 0.001),
        rows.Row("train two", "train", tiny("convs3s"), peer),
        rows.Row("generate three", "generate", ours, peer, 1e6),
    ]
    monkeypatch.setitem(rows.ROWS, "cpu", lambda: made)
    monkeypatch.setitem(table.ROUNDS, "cpu", 1)
    # No test may write the real pages.
    monkeypatch.setattr(pages, "PAGES", None)
    return made


@pytest.fixture
def in_this_process(monkeypatch):
    """Measure rows in this process, because a new one takes seconds to start."""

    def threads(workers, mp_context, initializer):
        return ThreadPoolExecutor(workers)

    monkeypatch.setattr(table, "ProcessPoolExecutor", threads)


def results(folder):
    return json.loads((folder / "cpu.json").read_text(encoding="utf-8"))


def test_a_row_is_measured_in_a_process_of_its_own(tiny_rows, tmp_path, monkeypatch):
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "train one") == 0
    found = results(tmp_path)
    assert list(found) == ["train one"] and found["train one"]["seconds"]["ratio"]["median"] > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_measurement_goes_on_after_a_kill(tmp_path):
    """It would take the time of what is measured next. This row takes minutes."""
    row = ("--rows", "generate pervasive 50 words", "--out", tmp_path)
    command = [sys.executable, "-m", "benchmarks", "table", *map(str, row)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
        worker = until(lambda: measuring(children(process.pid)))
        process.kill()
    assert until(lambda: not Path(f"/proc/{worker}").exists())


def children(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def measuring(processes: list[str]) -> str | None:
    """The one among these that measures a row, if it has begun."""
    for process in processes:
        if "spawn_main" in Path(f"/proc/{process}/cmdline").read_text():
            return process
    return None


def until(condition, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := condition():
            return value
        time.sleep(0.1)
    return None


def test_earlier_results_are_kept_and_failures_are_reported(
    tiny_rows, in_this_process, tmp_path, monkeypatch, capsys
):
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "train one") == 0
    first = results(tmp_path)
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "*t*[wr][oe]*") == 1
    printed = capsys.readouterr()
    assert "train two ... failed: UserError: There is no architecture convs3s" in printed.out
    assert "below the floor: train two, generate three" in printed.err
    later = results(tmp_path)
    assert list(later) == [row.name for row in tiny_rows]
    assert later["train one"] == first["train one"]
    lines = pages.comparison_table(later).splitlines()
    expected = "| train `convs2s_iwslt_de_en`, 2 x 4 tokens, vocabulary 60 | `fconv_iwslt_de_en` |"
    assert lines[2].startswith(expected)
    assert "failed: UserError" in lines[3] and "beam 5" in lines[4]
    assert len({line.count(" | ") for line in lines[2:5]}) == 1
    assert lines[5] == "" and lines[6].startswith("Measured on ")
    later["train one"]["bytes"] = {"ours": 2**20, "peer": 3 * 2**20}
    lines = pages.comparison_table(later).splitlines()
    assert "peak memory" in lines[0] and lines[2].endswith("| 1 MiB, 3 MiB |")
    assert len({line.count("|") for line in lines[:5]}) == 1


def test_no_row_begins_after_the_time_limit(tiny_rows, tmp_path, monkeypatch, capsys):
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--minutes", 0) == 1
    assert capsys.readouterr().out.count("skipped, out of time") == 3


def test_rows_of_an_engine_that_is_missing_are_left_out(
    tiny_rows, in_this_process, tmp_path, monkeypatch, capsys
):
    tiny_rows[1] = tiny_rows[1]._replace(
        peer=tiny_rows[1].peer._replace(engine=table.CTRANSLATE2), name="generate two"
    )
    earlier = {"generate two": {"error": "kept"}}
    (tmp_path / "cpu.json").write_text(json.dumps(earlier), encoding="utf-8")
    monkeypatch.setattr(table, "find_spec", lambda name: None)
    assert benchmark(monkeypatch, "table", "--out", tmp_path, "--rows", "*o*") == 0
    assert (
        "Not measured without ctranslate2 (`pip install ctranslate2`): 'generate two'.\n"
        in capsys.readouterr().out
    )
    found = results(tmp_path)
    assert list(found) == ["train one", "generate two"]
    assert found["generate two"] == earlier["generate two"]


def test_unknown_row(tiny_rows, monkeypatch, capsys):
    assert benchmark(monkeypatch, "table", "--rows", "nothing") == 2
    assert "No row matches --rows nothing" in capsys.readouterr().err


@pytest.mark.parametrize("device", rows.ROWS)
def test_rows_have_unique_names_and_sides_with_the_same_sizes(device):
    made = rows.ROWS[device]()
    assert len({row.name for row in made}) == len(made)
    for row in made:
        for field in ("words", "sentences", "length", "layers", "beam", "device", "data"):
            assert getattr(row.ours, field) == getattr(row.peer, field)
        assert row.ours.device == device and row.peer.candidates is None


def test_pages_show_all_results():
    shown = set()
    for page in pages.PAGES:
        text = page.read_text(encoding="utf-8")
        shown |= {Path(match["path"]).name for match in pages.MARKED_TABLE.finditer(text)}
        assert pages.updated(text) == text
    others = {"families.json", "growth.json", "layers.json", "multi30k.json"}
    others |= {"single.json", "systems.json", "translate.json"}
    assert shown == {*(f"{device}.json" for device in rows.ROWS), *others}
    assert "sentences/s" in pages.results_table(pages.RESULTS / "multi30k.json")
    assert pages.results_table(pages.RESULTS / "missing.json") == ""


def test_table_writes_the_marked_tables(tiny_rows, in_this_process, tmp_path, monkeypatch):
    first, second = tmp_path / "first.md", tmp_path / "second.md"
    folder = tmp_path / "benchmarks" / "results"
    folder.mkdir(parents=True)
    first.write_text("before\n" + MARKED.format("cpu.json", "old\n"), encoding="utf-8")
    second.write_text(MARKED.format("cuda.json", "old\n") + "after\n", encoding="utf-8")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "RESULTS", folder)
    monkeypatch.setattr(pages, "PAGES", (first, second))
    assert benchmark(monkeypatch, "table", "--out", folder, "--rows", "train one") == 0
    body = pages.comparison_table(results(folder)) + "\n"
    assert first.read_text(encoding="utf-8") == "before\n" + MARKED.format("cpu.json", body)
    assert second.read_text(encoding="utf-8") == MARKED.format("cuda.json", "") + "after\n"
