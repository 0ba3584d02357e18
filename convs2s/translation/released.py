"""Released models: each is fetched once, checked, and kept in the user's cache.

translator = load_translator(fetch("multi30k-de-en"))
"""

import os
import re
import shutil
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Annotated
from urllib.parse import urlparse
from urllib.request import url2pathname

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from ..common.archives import download, is_address, unpack
from ..common.data_files import read_json
from ..common.errors import UserError, nearest
from ..common.locks import lock_folder, release
from ..common.names import is_name
from ..common.output_files import atomic_folder, atomic_path
from ..common.plain_files import read_plain
from ..text.preparation import digest

# The archives in a checkout of the repository.
CHECKOUT = Path(__file__).resolve().parents[2] / "models"
# The environment variable with another place of the archives: a folder, or an address.
VARIABLE = "CONVS2S_MODELS"
# The models that this package knows, and the file that names further ones in another place.
RELEASED = Path(__file__).with_name("released.json")
MANIFEST = "manifest.json"
FORMAT = 1
MAX_MANIFEST = MAX_SUMS = 2**20
# The digests of the files of a model in the cache, as the program sha256sum writes and checks them.
SUMS = "SHA256SUMS"
# Seconds to wait while another process fetches a model.
PATIENCE = 600.0


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError("is not a name of a file")
    return text


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError("is not an address that begins with https:// or http://")
    return text


Name = Annotated[str, AfterValidator(_name)]


class Model(BaseModel):
    """A released model.

    Attributes:
        title: what it does.
        languages: source and target; the languages of the words for pronunciation.
        file: the archive, which has a folder with the name of the model.
        size: size of the archive, in bytes.
        sha256: SHA-256 of the archive.
        license: the terms on which it may be used.
        limits: what it is not meant for.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    title: str
    languages: list[str]
    file: Name
    size: int = Field(gt=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    license: str
    limits: str


class Manifest(BaseModel):
    """The models of a release.

    Attributes:
        format: FORMAT.
        address: address of the folder of the archives.
        models: name -> model.
    """

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    address: Annotated[str, AfterValidator(_address)]
    models: dict[Name, Model]


def fetch(name: str) -> Path:
    """The folder of a released model, which is downloaded unless it is in the cache.

    The environment variable CONVS2S_MODELS names another place of the archives: a folder, or an
    address. A file ``manifest.json`` there may name further models.

    Args:
        name: name of the model.
    Returns:
        The folder, as ``convs2s export`` wrote it.
    Raises:
        UserError: if there is no such model, or its archive cannot be fetched or is not the right
            one, or the cache cannot be written or is damaged.
    """
    manifest = read_manifest(RELEASED)
    cache = cache_folder()
    model = manifest.models.get(name) or _of_place(name, manifest, cache)
    folder = _folder(cache, name, model)
    if not folder.is_dir():
        _make(cache)
        message = f"Another process is still fetching a model to {cache}: wait until it ends."
        descriptor = lock_folder(str(cache), message, PATIENCE)
        try:
            if not folder.is_dir():
                _write(name, model, _place(manifest, model.file), folder)
        finally:
            release(descriptor)
    _check(folder)
    return folder / name


def cache_folder() -> Path:
    """The folder of released models: ``convs2s`` in $XDG_CACHE_HOME, by default ~/.cache.

    Raises:
        UserError: if there is neither.
    """
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convs2s"
    except RuntimeError as error:
        raise UserError(
            "There is no home folder for the cache of models: set XDG_CACHE_HOME to a folder."
        ) from error


def _folder(cache: Path, name: str, model: Model) -> Path:
    """The folder of a model in the cache, which may not exist."""
    return cache / f"{name}-{model.sha256[:16]}"


def read_manifest(path: Path) -> Manifest:
    """Read and check a manifest.

    Raises:
        UserError: if it cannot be read, or is not a manifest that this version knows.
    """
    content = read_json(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        found = content.get("format") if isinstance(content, dict) else None
        raise UserError(
            f"{path} is not a manifest of released models: its format is {found}, but this version "
            f"reads {FORMAT}."
        )
    try:
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{path} is not a manifest of released models: {where}: {message}.") from (
            error
        )


def _place(manifest: Manifest, file: str | None = None) -> str | Path:
    """The place of the archives: a folder, or an address that ends in a slash.

    Args:
        manifest: that of this package.
        file: the archive; None for a manifest of another place.
    Raises:
        UserError: if the environment variable names no place.
    """
    text = os.environ.get(VARIABLE) or manifest.address
    if not os.environ.get(VARIABLE) and file and (CHECKOUT / file).is_file():
        return CHECKOUT
    if is_address(text):
        return text.removesuffix("/") + "/"
    scheme = re.match(r"(\w[\w+.-]+)://", text)
    if scheme and scheme[1].lower() != "file":
        raise UserError(
            f"{VARIABLE} is {text}: it must be a folder, or an address that begins with https://, "
            "http:// or file://."
        )
    folder = Path(url2pathname(urlparse(text).path) if scheme else text)
    if not folder.is_dir():
        what = f"{folder} is not a folder" if folder.exists() else f"There is no folder {folder}"
        raise UserError(f"{what} ({VARIABLE}).")
    return folder


def _of_place(name: str, manifest: Manifest, cache: Path) -> Model:
    """A model that only the manifest of another place has.

    Raises:
        UserError: if there is no other place, or it has no such model, or cannot be read.
    """
    names = [*manifest.models]
    found: Model | None = None
    unknown = f"There is no released model '{name}'"
    if os.environ.get(VARIABLE):
        place = _place(manifest)
        try:
            for path in _manifests(place, cache):
                models = read_manifest(path).models
                found = models.get(name, found)
                if found is not None and _folder(cache, name, found).is_dir():
                    return found
                names = list(dict.fromkeys([*manifest.models, *models]))
        except UserError as error:
            if found is not None:
                return found
            raise UserError(
                f"{unknown}; without a manifest of {place}, allowed: {', '.join(names)}. {error}"
            ) from error
    if found is not None:
        return found
    raise UserError(f"{unknown}{nearest(name, names)}; allowed: {', '.join(names)}.")


def _manifests(place: str | Path, cache: Path) -> Iterator[Path]:
    """The manifest files of a place; for an address, the cached copy, then the current file."""
    if isinstance(place, Path):
        if (place / MANIFEST).is_file():
            yield place / MANIFEST
        return
    kept = cache / f"{sha256(place.encode()).hexdigest()[:16]}.json"
    if kept.is_file():
        yield kept
    _make(cache)
    with atomic_path(str(kept)) as partial:
        otherwise = f"get the archive in another way and set {VARIABLE} to its folder"
        download(place + MANIFEST, Path(partial), MAX_MANIFEST, otherwise)
    yield kept


def _make(cache: Path) -> None:
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{cache} cannot be made: {error.strerror}. Set XDG_CACHE_HOME to a writable folder "
            "for caches."
        ) from error


def _write(name: str, model: Model, place: str | Path, folder: Path) -> None:
    """Write the folder of a model to the cache, whole or not at all."""
    for left in folder.parent.glob(f"{folder.name}.*.partial"):
        # Left by a process that was killed: nobody else writes while the cache is locked.
        shutil.rmtree(left, ignore_errors=True)
    with atomic_folder(str(folder)) as partial:
        new = Path(partial)
        if isinstance(place, Path):
            archive, source = place / model.file, str(place / model.file)
            if not archive.is_file():
                raise UserError(
                    f"There is no {model.file} in {place} ({VARIABLE}): put it there, or unset "
                    f"{VARIABLE}."
                )
        else:
            archive, source = new / f"{name}.download", place + model.file
            otherwise = f"get {model.file} in another way and set {VARIABLE} to its folder"
            download(source, archive, model.size, otherwise)
        _check_archive(archive, source, model)
        unpack(archive, new, lambda path: path.parts[0] == name, source)
        if not (new / name).is_dir():
            raise UserError(f"{source} has no folder {name}, as the archive of this model must.")
        if archive.parent == new:
            archive.unlink()
        files = sorted(path for path in new.rglob("*") if path.is_file())
        sums = (f"{digest(path)}  {path.relative_to(new).as_posix()}\n" for path in files)
        (new / SUMS).write_text("".join(sums), encoding="utf-8")


def _check_archive(archive: Path, source: str, model: Model) -> None:
    """Check that an archive is the one that a manifest describes.

    Raises:
        UserError: if it is not.
    """
    found = digest(archive)
    size = archive.stat().st_size
    if size != model.size:
        raise UserError(
            f"{source} has {size:,} of {model.size:,} bytes: it is incomplete, or another file. "
            "Get it again."
        )
    if found != model.sha256:
        raise UserError(
            f"{source} is not the file that was released: its SHA-256 is {found}, but the manifest "
            f"has {model.sha256}. Get it again, from another place if that does not help."
        )


def _check(folder: Path) -> None:
    """Check that the files of a model in the cache are as they were unpacked.

    Raises:
        UserError: if they are not.
    """
    try:
        lines = read_plain(folder / SUMS, MAX_SUMS).decode().splitlines()
        for expected, _, name in (line.partition("  ") for line in lines):
            if digest(folder / name) != expected:
                raise UserError(f"{folder / name} has changed.")
    except UserError as error:
        raise UserError(
            f"{folder} is damaged: {error} Remove the folder, and the model is fetched again."
        ) from error
