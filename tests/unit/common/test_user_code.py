"""Packages of users: the name, the folders inside, and refusals in a sentence."""

import sys

import pytest

from convs2s.common import user_code
from convs2s.common.errors import UserError
from convs2s.common.user_code import import_user_code


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """Restore the path, and forget the packages of a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def package(folder, **files):
    """A package with files of this text by name, beside ``__init__.py``."""
    for name, text in {"__init__": "", **files}.items():
        path = folder / f"{name.replace('.', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def test_the_folder_is_the_name_of_the_package(tmp_path, monkeypatch):
    mine = package(
        tmp_path / "a" / "code_of_mine", inner="value = 3", __init__="from .inner import *"
    )
    import_user_code(mine)
    assert sys.modules["code_of_mine"].value == 3 and sys.path[0] == str(tmp_path / "a")
    imported = sys.modules["code_of_mine"]
    monkeypatch.chdir(tmp_path / "a")
    import_user_code("code_of_mine/")
    assert sys.modules["code_of_mine"] is imported
    import_user_code(None)


def test_the_folders_that_fairseq_imports_are_imported(tmp_path):
    import_user_code(package(tmp_path / "with_folders", **{"models.a": "", "tasks.b": "", "c": ""}))
    names = {name for name in sys.modules if name.startswith("with_folders.")}
    assert {"with_folders.models.a", "with_folders.tasks.b"} <= names
    assert "with_folders.c" not in names


def test_a_missing_folder_and_a_second_package_of_one_name_are_refused(tmp_path):
    with pytest.raises(UserError, match=r"There is no folder /no/such \(--user-dir\)\."):
        import_user_code("/no/such")
    import_user_code(package(tmp_path / "a" / "same_name"))
    with pytest.raises(UserError, match="a module named 'same_name' is imported already: rename"):
        import_user_code(package(tmp_path / "b" / "same_name"))
    with pytest.raises(UserError, match="a module named 'json' is imported already"):
        import_user_code(package(tmp_path / "json"))


def test_a_package_that_needs_fairseq(tmp_path, monkeypatch):
    mine = package(tmp_path / "needs_it", __init__="import fairseq_that_is_missing")
    monkeypatch.setattr(user_code, "missing_fairseq", lambda: None)
    with pytest.raises(ModuleNotFoundError):
        import_user_code(mine)
    monkeypatch.setattr(user_code, "missing_fairseq", lambda: "It needs fairseq.")
    with pytest.raises(UserError, match="needs_it cannot be imported: It needs fairseq"):
        import_user_code(mine)
    (mine / "__init__.py").write_text("import another_that_is_missing")
    with pytest.raises(ModuleNotFoundError, match="another_that_is_missing"):
        import_user_code(mine)
