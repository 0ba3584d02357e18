"""Models at an address: an archive is downloaded and unpacked once."""

import hashlib
import tempfile
from pathlib import Path
from urllib.parse import urlparse

import torch

from ..archives import only_folder, unpack
from ..errors import UserError

SCHEMES = ("https", "http")


def is_address(path: str) -> bool:
    """Whether a path is an address on the network."""
    return urlparse(path).scheme in SCHEMES


def download(address: str) -> Path:
    """The folder of a model, downloaded to the cache of ``torch.hub`` unless it is there already.

    Args:
        address: of a tar archive, possibly compressed, of the folder.
    Raises:
        UserError: if the address cannot be read, or the file is no such archive.
    """
    name = Path(urlparse(address).path).name.partition(".")[0]
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    cache = Path(torch.hub.get_dir()) / "convs2s_plugin"
    folder = cache / f"{name}-{digest}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            archive = Path(temporary) / "archive"
            try:
                torch.hub.download_url_to_file(address, str(archive))
            except (OSError, ValueError) as error:
                raise UserError(f"{address} cannot be downloaded: {error}.") from error
            try:
                unpack(archive, folder)
            except UserError as error:
                raise UserError(str(error).replace(str(archive), address, 1)) from error
    return only_folder(folder)
