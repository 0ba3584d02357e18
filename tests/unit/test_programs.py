"""Commands in the form in which they are printed."""

from convs2s_plugin.programs import relative_path


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert relative_path(tmp_path / "a" / "b") == "a/b"
    assert relative_path("--option") == "--option"
    assert relative_path("/elsewhere/a") == "/elsewhere/a"
