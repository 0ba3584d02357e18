"""Names and paths in the content of files stay in their folder."""

from pathlib import Path

import pytest

from convs2s.common.errors import UserError
from convs2s.common.names import check_name, inside, is_name

OUTSIDE = ["../x", "a/../../x", "/tmp/x", "..\\\\x", "C:\\\\x", "C:x", "//host/x", "..", "a\0b", ""]


@pytest.mark.parametrize(
    "name", ["de", "zh_CN", "sr@latin", "test_2016", "pt-BR", "日本", ".x", "a b"]
)
def test_names(name):
    assert check_name(name, "the name") == name


@pytest.mark.parametrize(
    "name", [*OUTSIDE, "a/b", "a\nb", "-a", "--user-dir=x", " ", ".", "\ud800"]
)
def test_what_is_not_a_name(name):
    if name == "C:x":
        # A name on this system, and a path of Windows.
        return
    assert not is_name(name)
    with pytest.raises(UserError, match="^the name is .*: it must be a name of at most 200 bytes"):
        check_name(name, "the name")
    assert not is_name("a" * 201) and is_name("a" * 200)


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_lead_out_of_a_folder(path):
    with pytest.raises(UserError, match="the path is .*which is not in its folder"):
        inside(Path("folder"), path, "the path")


@pytest.mark.parametrize("path", ["a", "a/b", "./a", "a..b", "..a"])
def test_paths_in_a_folder(path):
    assert inside(Path("folder"), path, "the path") == Path("folder", path)
