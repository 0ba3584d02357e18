"""Tables in a terminal."""

import shutil
import sys

from convs2s.common.tables import Table, show


def test_a_terminal_gets_an_aligned_table_within_its_width(monkeypatch):
    table = Table(("system", "BLEU"), [("a system with a long name", "43.59 ± 0.04"), ("b", "7")])
    wide = table.aligned(80).splitlines()
    assert [len(line) for line in wide] == [39, 39, 39, 39]
    narrow = table.aligned(30).splitlines()
    assert max(map(len, narrow)) <= 30 and len(narrow) == 5
    assert " ".join("".join(narrow).split()).count("long") == 1
    assert show(table) == table.markdown()
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert show(table) == table.aligned(shutil.get_terminal_size().columns)
