"""examples/notebook/first_hour.ipynb: its cells run, and its outputs are in place."""

import pytest

from tests.integration.examples.conftest import EXAMPLES

for package in ("nbclient", "nbformat", "ipykernel", "num2words", "babel", "matplotlib"):
    pytest.importorskip(package)

import nbformat  # noqa: E402
from nbclient import NotebookClient  # noqa: E402

PATH = EXAMPLES / "notebook" / "first_hour.ipynb"
TINY = "PAIRS = 120\nUPDATES = 10"


def cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def pictures(notebook):
    outputs = [output for cell in cells(notebook) for output in cell.outputs]
    return [output for output in outputs if "image/png" in output.get("data", {})]


@pytest.fixture
def notebook():
    return nbformat.read(PATH, as_version=4)


@pytest.mark.slow
def test_every_cell_runs(notebook, tmp_path, monkeypatch):
    pytest.importorskip("fairseq")
    (parameters,) = (
        cell for cell in cells(notebook) if "parameters" in cell.metadata.get("tags", ())
    )
    assert parameters.source.startswith("PAIRS = ") and "\nUPDATES = " in parameters.source
    parameters.source = TINY
    (tmp_path / "demo").symlink_to(EXAMPLES / "demo")
    folder = tmp_path / "notebook"
    folder.mkdir()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    assert any("BLEU = " in printed(cell) for cell in cells(notebook))
    assert len(pictures(notebook)) == 2
    assert (folder / "first_hour_out" / "attention.png").is_file()


def test_the_outputs_are_in_place(notebook):
    assert [cell.execution_count for cell in cells(notebook)] == list(
        range(1, len(cells(notebook)) + 1)
    )
    assert len(pictures(notebook)) == 2
    for cell in cells(notebook):
        assert not any(output.output_type == "error" for output in cell.outputs)
        assert "/home/" not in printed(cell) and "/root/" not in printed(cell)
    assert PATH.stat().st_size < 200_000
