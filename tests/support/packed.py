"""Bytes as a file of each kind of compression has them, by the end of its name."""

import bz2
import gzip
import lzma

from convs2s.common.compression import zstd

PACK = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}
