"""Models at an address: an archive is downloaded and unpacked once."""

import hashlib
import tempfile
from pathlib import Path, PurePosixPath
from urllib.parse import urlparse

import torch

from ..common import archives
from ..common.errors import UserError
from ..common.output_files import atomic_folder


def download(address: str) -> Path:
    """The folder of a model, downloaded to the cache of ``torch.hub`` unless it is there already.

    Args:
        address: of a tar archive, possibly compressed, of the folder.
    Raises:
        UserError: if the address cannot be read, or the file is no such archive.
    """
    name = PurePosixPath(urlparse(address).path).name.partition(".")[0]
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    cache = Path(torch.hub.get_dir()) / "convs2s_plugin"
    folder = cache / f"{name}-{digest}"
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                archive = Path(temporary) / "archive"
                archives.download(address, archive)
                with atomic_folder(str(folder)) as new:
                    archives.unpack(archive, Path(new), lambda name: True, address)
        except OSError as error:
            raise UserError(f"{cache} cannot be written: {error.strerror or error}.") from error
    # An archive usually holds the folder, rather than what is in it.
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder
