"""Valid and nearly valid inputs to begin with."""

import io
import struct
from argparse import Namespace

import torch

from convs2s.models.adl.architectures import ARCHITECTURES


def seeds() -> dict[str, list[bytes]]:
    """Inputs of each target."""
    definitions = {text for each in ARCHITECTURES.values() for text in (each.encoder, each.decoder)}
    index = struct.pack("<9sQBQ", b"MMIDIDX\x00\x00", 1, 8, 2)
    index += struct.pack("<2i2q", 1, 2, 0, 2)
    return {
        "adl": [text.encode() for text in sorted(definitions)],
        "layer_lists": [b"[(512, 3)] * 4 + [(768, 3, 2)]", b"[True, False] * 2", b"True"],
        "options": [b"[(512, 3)] * 9 + [(1024, 1)]", b"{'a': -1.5, 'b': (None, 'x')}", b"0.1"],
        "lexicon": [b"haus house 0.5\nhaus home 0.25\n", b"a\tb\t1e-3\n"],
        "links": [b"0-0 1-2 3p4\n\n", b"1-1\n"],
        "yaml_files": [b"source: de\ntarget: en\nsystems:\n  a: {arch: convs2s}\n", b"{a: [1, 2]}"],
        "checkpoints": [_checkpoint(new) for new in (True, False)],
        "binarized": [index + b"\x04\x00\x05\x00\x06\x00" + b"\x00" * (len(index) - 6)],
    }


def _checkpoint(new: bool) -> bytes:
    file = io.BytesIO()
    content = {
        "args": Namespace(arch="convs2s"),
        "model": {"weight": torch.ones(2)},
        "optimizer_history": [{"num_updates": 3}],
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(content, file, _use_new_zipfile_serialization=new)
    return file.getvalue()
