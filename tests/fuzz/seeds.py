"""Valid and nearly valid inputs to begin with."""

import functools
import io
import struct
import tempfile
from argparse import Namespace
from pathlib import Path

import torch

from convs2s.models.adl.architectures import ARCHITECTURES
from tests.support.hostile import ARCHIVES, CHECKPOINTS, YAML

# Longer inputs are files for tests/integration/test_hostile_files.py only.
LONGEST = 2**16


NAMES = (
    b"let a = res(rnn); let b = a -> share(a); cycle(3, b, share(b) -> id) -> share(a)",
    b"let block = bi(linear(8)); pos -> cycle(3, block, res(cnn)) -> block",
)


@functools.cache
def seeds() -> dict[str, list[bytes]]:
    """Inputs of each target."""
    definitions = {text for each in ARCHITECTURES.values() for text in (each.encoder, each.decoder)}
    index = struct.pack("<9sQBQ", b"MMIDIDX\x00\x00", 1, 8, 2)
    index += struct.pack("<2i2q", 1, 2, 0, 2)
    return {
        "adl": [*(text.encode() for text in sorted(definitions)), *NAMES],
        "patterns": [
            b"*-*-**-",
            b'["full_attention", "recurrent", "full_attention"]',
            b'{"layer_types": ["full_attention"], "num_hidden_layers": 1}',
            b'{"block_types": ["recurrent"], "num_hidden_layers": 3}',
        ],
        "layer_lists": [b"[(512, 3)] * 4 + [(768, 3, 2)]", b"[True, False] * 2", b"True"],
        "options": [b"[(512, 3)] * 9 + [(1024, 1)]", b"{'a': -1.5, 'b': (None, 'x')}", b"0.1"],
        "lexicon": [b"haus house 0.5\nhaus home 0.25\n", b"a\tb\t1e-3\n"],
        "links": [b"0-0 1-2 3p4\n\n", b"1-1\n"],
        "yaml_files": [
            *_hostile(YAML),
            b"source: de\ntarget: en\nsystems:\n  a: {arch: convs2s}\n",
            b"{a: [1, 2]}",
        ],
        "checkpoints": [*_hostile(CHECKPOINTS), *(_checkpoint(new) for new in (True, False))],
        "archives": _hostile(ARCHIVES),
        "binarized": [index + b"\x04\x00\x05\x00\x06\x00" + b"\x00" * (len(index) - 6)],
    }


def _hostile(files: dict) -> list[bytes]:
    """The contents of files that would take all memory or time, as far as they are short."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in files.items():
            path = Path(folder, name)
            write(path)
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= LONGEST:
                found.append(path.read_bytes())
    return found


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
