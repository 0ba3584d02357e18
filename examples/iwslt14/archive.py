"""The files of IWSLT'14 German-English: from a folder, from the archive, or downloaded."""

from __future__ import annotations

from pathlib import Path

from convs2s.common import archives
from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_path

LANGUAGES = ("de", "en")
TRAIN = "train.tags.de-en"
# In their order in the test set.
TEST_SETS = (
    "IWSLT14.TED.dev2010.de-en",
    "IWSLT14.TEDX.dev2012.de-en",
    "IWSLT14.TED.tst2010.de-en",
    "IWSLT14.TED.tst2011.de-en",
    "IWSLT14.TED.tst2012.de-en",
)
FILES = (
    *(f"{TRAIN}.{language}" for language in LANGUAGES),
    *(f"{name}.{language}.xml" for name in TEST_SETS for language in LANGUAGES),
)
ADDRESS = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"


def download(address: str, archive: Path) -> None:
    """Download the archive; the file exists only once it is complete.

    Raises:
        UserError: if the address does not answer, or the file cannot be written.
    """
    with atomic_path(str(archive)) as partial:
        archives.download(address, Path(partial))


def find_files(archive: Path, unpacked: Path) -> dict[str, Path]:
    """Find all files of the dataset.

    Args:
        archive: an archive or a folder that holds the files, or a folder de-en with them.
        unpacked: the folder to unpack an archive to.
    Returns:
        The path of each name in FILES.
    Raises:
        UserError: if the archive cannot be unpacked, or a file is missing.
    """
    folder = archive
    if not archive.is_dir():
        folder = unpacked
        unpack(archive, unpacked)
    if not (folder / FILES[0]).exists() and (folder / "de-en").is_dir():
        folder = folder / "de-en"
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing:
        raise UserError(
            f"{archive} has no {missing[0]}"
            + (f", and {len(missing) - 1} more files are missing" if missing[1:] else "")
            + f". It must have {', '.join(FILES)}."
        )
    return {name: folder / name for name in FILES}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of the dataset, and nothing else.

    Raises:
        UserError: if there is no archive, or it is damaged or dangerous.
    """
    if not archive.exists():
        raise UserError(
            f"There is no {archive}: use --download, or --archive with the archive or a folder "
            "with its files."
        )
    try:
        archives.unpack(archive, folder, lambda path: path.name in FILES, str(archive))
    except OSError as error:
        raise UserError(f"{archive} cannot be unpacked: {error.strerror or error}.") from error
