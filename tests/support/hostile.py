"""Small files that would take all memory, or all time, of a program that trusts them."""

import argparse
import gzip
import itertools
import os
import tarfile
import zipfile

import torch

MEGABYTE = 2**20


def _content(**changes):
    """What a checkpoint needs for a command to go on with it."""
    return {
        "args": argparse.Namespace(arch="convs2s_iwslt_de_en", task="translation"),
        "model": {"weight": torch.ones(4)},
        "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"train_iterator": {"epoch": 1}},
        **changes,
    }


def compressed(path):
    """A checkpoint whose parts are compressed a thousand times: 40 MB for the memory."""
    torch.save(_content(model={"weight": torch.zeros(10 * MEGABYTE)}), path)
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)


def overlapping(path):
    """A checkpoint in which many names stand for one part of the file."""
    torch.save(_content(model={"weight": torch.ones(MEGABYTE)}), path)
    with zipfile.ZipFile(path, "a") as archive:
        (part,) = (each for each in archive.infolist() if each.filename.endswith("data/0"))
        for number in range(100):
            other = zipfile.ZipInfo(f"checkpoint/data/{number + 1}")
            for name in ("header_offset", "file_size", "compress_size", "CRC", "compress_type"):
                setattr(other, name, getattr(part, name))
            archive.filelist.append(other)
        archive._didModify = True


def expanded(path):
    """A weight of a trillion numbers that are one number."""
    torch.save(_content(model={"weight": torch.ones(1).expand(10**6, 10**6)}), path)


def shared(path):
    """A thousand weights that are the same megabytes."""
    matrix = torch.ones(MEGABYTE)
    torch.save(_content(model={f"weight{number}": matrix for number in range(1000)}), path)


def doubled(path):
    """Text that a function of pickle doubles forty times."""
    call = b"c_codecs\nencode\nq\x00"
    pickled = b"\x80\x02}q\x01X\x05\x00\x00\x00modelq\x02"
    pickled += call + b"0" + b"h\x00" * 40 + b"C\x10" + b"x" * 16
    pickled += b"X\x03\x00\x00\x00hex\x86R" * 40 + b"s."
    _zip(path, pickled)


def zeros(path):
    """An array of zeros whose length is a number."""
    pickled = b"\x80\x02}q\x01X\x05\x00\x00\x00modelq\x02"
    pickled += b"c__builtin__\nbytearray\n" + b"\x8a\x05" + (10**11).to_bytes(5, "little")
    _zip(path, pickled + b"\x85Rs.")


def _zip(path, pickled):
    """A checkpoint of torch with this pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("checkpoint/data.pkl", pickled)
        archive.writestr("checkpoint/version", "3\n")
        archive.writestr("checkpoint/byteorder", "little")


def legacy(path):
    """A checkpoint of torch before 1.6 whose storage has a trillion numbers."""
    torch.save(_content(), path, _use_new_zipfile_serialization=False)
    old = path.read_bytes()
    assert b"K\x04N" in old
    path.write_bytes(old.replace(b"K\x04N", b"\x8a\x06" + (10**12).to_bytes(6, "little") + b"N", 1))


def _member(kind, size, name=b"a"):
    """The header of a member of a tar archive."""
    info = tarfile.TarInfo(name.decode())
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT)


def _zeros(path, before, size, after=b""):
    """A compressed archive with many zeros."""
    zeros = gzip.compress(bytes(MEGABYTE)) * (size // MEGABYTE)
    path.write_bytes(gzip.compress(before) + zeros + gzip.compress(after))


def header_of_gigabytes(path):
    """A pax header that claims to have a gigabyte."""
    _zeros(path, _member(tarfile.XHDTYPE, 2**30), 200 * MEGABYTE)


def name_of_gigabytes(path):
    """A name that claims to have a gigabyte."""
    _zeros(path, _member(tarfile.GNUTYPE_LONGNAME, 2**30), 200 * MEGABYTE)


def many_members(path):
    """A hundred thousand empty members."""
    with gzip.open(path, "wb", 9) as file:
        file.write(_member(tarfile.REGTYPE, 0) * 100_000)


def large_member(path):
    """A member that is a thousand times as large as the archive."""
    _zeros(path, _member(tarfile.REGTYPE, 600 * MEGABYTE, b"a.pt"), 600 * MEGABYTE)


def claimed_member(path):
    """A member of an exabyte that is not there."""
    _zeros(path, _member(tarfile.REGTYPE, 2**60, b"a.pt"), 0, bytes(1024))


def nested_headers(path):
    """A header before a header before a header."""
    header = _member(tarfile.XHDTYPE, 12) + b"12 path=abc\n".ljust(512, b"\0")
    with gzip.open(path, "wb", 9) as file:
        file.write(header * 5000)


def negative_size(path):
    """A member that ends before it begins."""
    info = bytearray(_member(tarfile.REGTYPE, 0))
    info[124:136] = b"\xff" * 11 + b"\x00"
    info[148:156] = b" " * 8
    info[148:156] = b"%06o\0 " % sum(info)
    with gzip.open(path, "wb") as file:
        file.write(bytes(info) + bytes(1024))


def pipe(path):
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def device(path):
    """A link to a device without an end."""
    os.symlink("/dev/zero", path)


def one_line(path):
    """A compressed line of 100 MB."""
    path.write_bytes(gzip.compress(b"a" * MEGABYTE) * 100)


def many_lines(path):
    """30 million compressed lines."""
    path.write_bytes(gzip.compress(b"aaaaaaaaa\n" * (MEGABYTE // 10)) * 300)


def _text(content):
    def write(path):
        path.write_text(content, encoding="utf-8")

    return write


def _aliases():
    """Nine values that are nine values that are nine values: four billion."""
    text = "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for one, other in itertools.pairwise("abcdefghij"):
        text += f"{other}: &{other} [{', '.join([f'*{one}'] * 9)}]\n"
    return text


_EXPERIMENT = """
data: {source: de, target: en, bin: data-bin}
systems: {a: {updates: 1, train: {arch: convs2s}, SYSTEM}}
"""
_GRID = ", ".join(f"o{number}: [1, 2, 3, 4, 5, 6, 7, 8]" for number in range(8))
_SEEDS = ", ".join(map(str, range(20_000)))
TEXTS = {each.__name__: each for each in (device, one_line, many_lines)}
YAML = {
    "aliases": _text(_aliases()),
    "merges": _text("a: &a {x: 1}\nb: &b {<<: [*a, *a, *a]}\nc: &c {<<: [*b, *b]}\nd: *d\n"),
    "itself": _text("a: &a [*a]\n"),
    "nested": _text("[" * 500_000),
    "digits": _text(f"format: {'9' * 5000}\n"),
    "tag": _text("format: !!python/object/apply:os.system [exit]\n"),
    "bool": _text("format: !!bool x\n"),
    "int": _text("format: !!int ''\n"),
    "timestamp": _text("format: !!timestamp x\n"),
    "date": _text("format: 2020-99-99\n"),
    "nul": _text('format: "a\\0b"\n'),
    "half": _text('format: "\\ud800"\n'),
    "grid": _text(_EXPERIMENT.replace("SYSTEM", f"trials: {{{_GRID}}}")),
    "seeds": _text(_EXPERIMENT.replace("SYSTEM", f"seeds: [{_SEEDS}]")),
    "updates": _text(_EXPERIMENT.replace("SYSTEM", f"seeds: [{'9' * 300}]")),
    **TEXTS,
    "pipe": pipe,
}
JSON = {
    "nested": _text("[" * 500_000),
    "digits": _text(f'{{"results": {"9" * 5000}}}'),
    "half": _text('{"score": "\\ud800", "results": ["\\ud800"]}'),
    "infinity": _text('{"score": 1e999, "results": [{"by_length": [1e999]}]}'),
    **TEXTS,
}
ARCHIVES = {
    each.__name__: each
    for each in (
        header_of_gigabytes,
        name_of_gigabytes,
        many_members,
        large_member,
        claimed_member,
        nested_headers,
        negative_size,
    )
}
CHECKPOINTS = {
    each.__name__: each
    for each in (compressed, overlapping, expanded, shared, doubled, zeros, legacy)
}
