"""Names and paths in the content of files stay in their folder."""

from pathlib import Path

import pytest

from convs2s.common.errors import UserError
from convs2s.common.names import check_name, inside, is_name

OUTSIDE = ["../x", "a/../../x", "/tmp/x", "..\\\\x", "C:\\\\x", "C:x", "//host/x", "..", "a\0b", ""]
# The last one is a name on this system, and a path of Windows.
NAMES = ["de", "zh_CN", "sr@latin", "test_2016", "pt-BR", "日本", ".x", "a b", "C:x"]
NOT_NAMES = ["a/b", "a\nb", "a\x7f", "-a", "--user-dir=x", " ", ".", "\ud800"]


@pytest.mark.parametrize("name", NAMES)
def test_names(name):
    assert check_name(name, "the name") == name


@pytest.mark.parametrize("name", [name for name in OUTSIDE + NOT_NAMES if name not in NAMES])
def test_what_is_not_a_name(name):
    assert not is_name(name)
    with pytest.raises(UserError, match="^the name is .*: it must be a name of at most 200 bytes"):
        check_name(name, "the name")


def test_the_length_of_names_is_limited():
    assert is_name("a" * 200) and not is_name("a" * 201)
    assert is_name("日" * 66) and not is_name("日" * 67)


@pytest.mark.parametrize("path", OUTSIDE)
def test_paths_that_lead_out_of_a_folder(path):
    with pytest.raises(UserError, match="the path is .*which is not in its folder"):
        inside(Path("folder"), path, "the path")


@pytest.mark.parametrize("path", ["a", "a/b", "./a", "a..b", "..a"])
def test_paths_in_a_folder(path):
    assert inside(Path("folder"), path, "the path") == Path("folder", path)
