"""Shards of a file: each line in one of them, wherever their bounds are."""

import gzip
import os
import random
import threading

import pytest

from convs2s.common.errors import UserError
from convs2s.common.shards import Shard, ShardReader
from convs2s.common.text_files import read_lines

PIECES = ["\n", "\n\n", "a", "word word", "ä𝔘", "\r\n", "\u2028", "x" * 40, "\ufeff"]


def readers(path, total, **options):
    return [ShardReader(str(path), Shard(number, total), **options) for number in range(total)]


@pytest.mark.parametrize("seed", range(20))
def test_each_line_is_in_one_shard(seed, tmp_path):
    numbers = random.Random(seed)
    text = "".join(numbers.choices(PIECES, k=numbers.randint(0, 40)))
    path = tmp_path / "text"
    path.write_bytes(text.encode())
    whole = [*read_lines(str(path))]
    assert [*ShardReader(str(path))] == whole
    for total in (1, 2, 3, 7, len(whole) + 5):
        before = 0
        found = []
        for reader in readers(path, total, is_counted=True):
            lines = [*reader]
            assert not lines or reader.lines_before == before
            assert not lines or reader.expected == len(lines)
            before += len(lines)
            found += lines
        assert found == whole


def test_shards_have_similar_sizes(tmp_path):
    (tmp_path / "text").write_text("ab\n" * 1000)
    assert [len([*reader]) for reader in readers(tmp_path / "text", 4)] == [250] * 4


def test_a_line_that_is_longer_than_a_shard(tmp_path):
    (tmp_path / "text").write_text("a\n" + "b" * 3_000_000 + "\nc\n")
    assert [len([*reader]) for reader in readers(tmp_path / "text", 4)] == [2, 0, 0, 1]


def test_the_number_of_lines_is_expected_from_their_bytes(tmp_path):
    (tmp_path / "text").write_text("ab\n" * 1000 + "abcdef\n" * 1000)
    reader = ShardReader(str(tmp_path / "text"))
    lines = iter(reader)
    assert reader.expected is None
    next(lines)
    assert reader.expected == round(10_000 / 3)
    assert len([*lines]) == 1999 and reader.expected == 2000


def test_a_shard_may_begin_with_a_line_that_has_a_nul_byte(tmp_path):
    """Only in the first line of a file, it tells UTF-16 from text."""
    (tmp_path / "text").write_bytes(b"aaaaaa\nc\0d\n")
    lines = [[line.strip("\n") for line in reader] for reader in readers(tmp_path / "text", 2)]
    assert lines == [["aaaaaa"], ["c\0d"]]


def test_a_compressed_file_has_no_shards(tmp_path):
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\nb\n"))
    with pytest.raises(UserError, match=r"text\.gz has no shards, because it is compressed"):
        readers(path, 2)
    whole = ShardReader(str(path))
    assert [*whole] == ["a\n", "b\n"] and whole.expected == 2


def test_a_pipe_has_no_shards(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("a\n",))
    writer.start()
    with pytest.raises(UserError, match="has no shards, because it is compressed or not a plain"):
        readers(path, 2)
    writer.join()


def test_an_error_names_the_shard(tmp_path):
    (tmp_path / "text").write_bytes(b"a\nb\nc\n\xff\n")
    with pytest.raises(UserError, match=r"text \(shard 1 of 2\), line 2: byte 0xff"):
        [*ShardReader(str(tmp_path / "text"), Shard(1, 2))]


def test_a_file_that_is_missing(tmp_path):
    with pytest.raises(UserError, match="There is no file"):
        readers(tmp_path / "text", 2)
