"""Lexicon files: reading, errors with line numbers, atomic writing."""

import gzip

import pytest

from convs2s.common import output_files
from convs2s.common.errors import UserError
from convs2s.text.lexicon.files import Entry, read_lexicon, read_translations, write_lexicon

ENTRIES = [
    Entry("2@@", "2@@", 1.0),
    Entry("schön", "lovely", 0.125),
    Entry("schön", "beautiful", 0.875),
    Entry("wiese", "of", 1e-7),
    Entry("wiese", "草原", 1 / 3),
]


def test_written_entries_are_read_back(tmp_path):
    path = str(tmp_path / "lexicon")
    assert write_lexicon(path, iter(ENTRIES)) == len(ENTRIES)
    read = list(read_lexicon(path))
    assert [entry[:2] for entry in read] == [entry[:2] for entry in ENTRIES]
    assert [entry.probability for entry in read] == pytest.approx(
        [entry.probability for entry in ENTRIES], rel=1e-3
    )
    assert (tmp_path / "lexicon").read_text(encoding="utf-8").splitlines()[2] == (
        "schön beautiful 0.875"
    )


def test_fairseq_reads_the_last_entry_of_a_word(tmp_path):
    load = pytest.importorskip("fairseq.utils").load_align_dict
    # The task of the plugin replaces the function.
    load = getattr(load, "__wrapped__", load)
    write_lexicon(str(tmp_path / "lexicon"), ENTRIES)
    assert load(str(tmp_path / "lexicon")) == {
        "2@@": "2@@",
        "schön": "beautiful",
        "wiese": "草原",
    }


def test_one_translation_of_each_word(tmp_path):
    """The last one, also in a dictionary without probabilities."""
    path = tmp_path / "lexicon"
    write_lexicon(str(path), ENTRIES)
    expected = {"2@@": "2@@", "schön": "beautiful", "wiese": "草原"}
    assert read_translations(str(path)) == expected
    path.write_text("schön\tlovely\nschön  beautiful\n", encoding="utf-8")
    assert read_translations(str(path)) == {"schön": "beautiful"}
    path.write_text("schön lovely\nwiese\n", encoding="utf-8")
    with pytest.raises(UserError, match="lexicon, line 2: expected 'source target', found 'wiese'"):
        read_translations(str(path))


def test_any_whitespace_separates(tmp_path):
    (tmp_path / "a").write_bytes("hund\tdog  0.5\r\n katze cat\u00a01".encode())
    expected = [Entry("hund", "dog", 0.5), Entry("katze", "cat", 1.0)]
    assert list(read_lexicon(str(tmp_path / "a"))) == expected


def test_gzip(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"hund dog 0.5\n" * 3))
    assert list(read_lexicon(str(tmp_path / "a.gz"))) == [Entry("hund", "dog", 0.5)] * 3


@pytest.mark.parametrize(
    "line, message",
    [
        (b"hund dog", "found 2 fields in 'hund dog'"),
        (b"", "found 0 fields in ''"),
        (b"hund big dog 0.5", "found 4 fields"),
        (b"x " * 9999, "found 9999 fields in 'x x x"),
        (b"hund dog much", "the probability is 'much'"),
        (b"0.5 hund dog", "the probability is 'dog'"),
        (b"hund dog 0", "the probability is '0'"),
        (b"hund dog -0.7", "the probability is '-0.7'"),
        (b"hund dog 1.01", "the probability is '1.01'"),
        (b"hund dog nan", "the probability is 'nan'"),
        (b"hund dog inf", "the probability is 'inf'"),
        (b"h\xfcnd dog 1", "byte 0xfc at offset 1"),
    ],
)
def test_malformed_lines(line, message, tmp_path):
    path = tmp_path / "lexicon"
    path.write_bytes(b"katze cat 0.5\nkatze kitten 0.5\n" + line + b"\nmaus mouse 1\n")
    entries = read_lexicon(str(path))
    assert [next(entries).target, next(entries).target] == ["cat", "kitten"]
    with pytest.raises(UserError) as refusal:
        next(entries)
    assert str(refusal.value).startswith(f"{path}, line 3: ")
    assert message in str(refusal.value) and len(str(refusal.value)) < 400


def test_unreadable_files(tmp_path):
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(b"hund dog 0.5\n" * 1000)[:-9])
    plain = tmp_path / "plain.gz"
    plain.write_bytes(b"hund dog 0.5\n")
    for path, message in [
        (tmp_path / "none", "There is no file"),
        (tmp_path, "Is a directory"),
        (cut, "Compressed file ended"),
        (plain, "Not a gzipped file"),
    ]:
        with pytest.raises(UserError, match=message) as refusal:
            list(read_lexicon(str(path)))
        assert str(path) in str(refusal.value)


def failing():
    yield ENTRIES[0]
    raise UserError("the source of the entries failed")


def test_no_partial_file(tmp_path):
    path = tmp_path / "lexicon"
    with pytest.raises(UserError, match="the source of the entries"):
        write_lexicon(str(path), failing())
    assert list(tmp_path.iterdir()) == []
    write_lexicon(str(path), ENTRIES)
    before = path.read_bytes()
    with pytest.raises(UserError, match="the source of the entries"):
        write_lexicon(str(path), failing())
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == before


def test_a_full_disk(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(output_files.os, "replace", full)
    with pytest.raises(UserError, match="cannot be written: No space left on device"):
        write_lexicon(str(tmp_path / "lexicon"), ENTRIES)
    assert list(tmp_path.iterdir()) == []


def test_unwritable_paths(tmp_path):
    for path, message in [
        (tmp_path, "is not a plain file"),
        ("/dev/null", "is not a plain file"),
        (tmp_path / "lexicon.gz", "omit .gz"),
        (tmp_path / "no" / "lexicon", "there is no folder"),
    ]:
        with pytest.raises(UserError, match=message):
            write_lexicon(str(path), ENTRIES)
