"""One notion of a line: only a line feed ends one."""

import pytest

from convs2s.common.errors import UserError
from convs2s.common.lines import LINE_ENDS, as_sentence
from convs2s.common.text_files import read_parallel, read_sentences


def test_line_ends_are_those_of_python():
    every = map(chr, range(0x110000))
    assert {*LINE_ENDS} == {one for one in every if len(f"a{one}b".splitlines()) > 1}


@pytest.mark.parametrize("end", [*LINE_ENDS, "\r\n"])
def test_sentence(end):
    assert as_sentence(f"a{end}b\n") == ("a b" if len(end) == 1 else "a  b")
    assert as_sentence("ä b\u00a0c\td\r\n") == "ä b\u00a0c\td"


@pytest.mark.parametrize("end", [*LINE_ENDS[1:]])
def test_files(tmp_path, end):
    for name, lines in (("a", [f"1{end}1", "2", f"{end}3"]), ("b", ["1", "2", "3"])):
        text = "\n".join(lines).encode()
        (tmp_path / name).write_bytes(text)
    assert [*read_sentences(str(tmp_path / "a"))] == ["1 1", "2", " 3"]
    pairs = [*read_parallel([str(tmp_path / "a"), str(tmp_path / "b")])]
    assert [number for number, _ in pairs] == [1, 2, 3] and pairs[1][1] == ("2", "2")
    (tmp_path / "b").write_bytes(b"1\n2\n")
    with pytest.raises(UserError, match="line 3: .*b has no such line"):
        [*read_parallel([str(tmp_path / "a"), str(tmp_path / "b")])]
