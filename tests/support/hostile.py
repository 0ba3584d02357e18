"""Small files that would take all memory, or all time, of a program that trusts them."""

import argparse
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


CHECKPOINTS = {
    each.__name__: each
    for each in (compressed, overlapping, expanded, shared, doubled, zeros, legacy)
}
