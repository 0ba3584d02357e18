"""Checkpoints are written whole or not at all."""

import os

import pytest
from fairseq.file_io import PathManager

import convs2s_plugin  # noqa: F401  (works around faults of fairseq)


def test_a_checkpoint_is_copied_whole_or_not_at_all(tmp_path, monkeypatch):
    source, target = tmp_path / "checkpoint_1_5.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *paths: pytest.fail("stopped before it was whole"))
    with pytest.raises(pytest.fail.Exception):
        PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"old"
    monkeypatch.undo()
    assert PathManager.copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"new"
    assert sorted(path.name for path in tmp_path.iterdir()) == [source.name, target.name]
