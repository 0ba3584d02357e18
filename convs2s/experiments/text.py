"""Find the text of an experiment in a folder, or download it."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from ..common.compression import OPENERS, without_compression
from ..common.errors import UserError
from ..common.output_files import atomic_path
from ..common.text_files import read_parallel
from ..text.sources import PairWriter
from .file import DataSettings

Pair = tuple[Path, Path]


class TextFolder:
    """The files of two languages in a folder: ``NAME.LANGUAGE`` or ``NAME.anything.LANGUAGE``.

    Each may be compressed (.gz, .bz2, .xz).

    Args:
        folder: the folder.
        languages: source and target.
    """

    def __init__(self, folder: Path, languages: tuple[str, str]):
        self.folder = folder
        self.languages = languages
        if not folder.is_dir():
            raise UserError(f"There is no folder {folder} with the text of the experiment.")
        # The files of each language: name without language and compression -> paths.
        self.files: tuple[dict[str, list[Path]], ...] = ({}, {})
        for path in sorted(folder.iterdir()):
            name = without_compression(path.name)
            for files, language in zip(self.files, languages):
                if name.endswith(f".{language}") and path.is_file():
                    files.setdefault(name[: -len(language) - 1], []).append(path)

    def first(self, names: Iterable[str]) -> tuple[str, Pair]:
        """The first name of which there are files, and the files of both languages."""
        names = list(names)
        for name in names:
            if any(self.matches(name, files) for files in self.files):
                return name, self.pair(name)
        raise UserError(
            f"{self.folder} has no file {' or '.join(names)} in {' or '.join(self.languages)}, "
            f"such as {names[0]}.{self.languages[0]} or {names[0]}.{self.languages[0]}.gz; "
            f"it has {self.content()}."
        )

    def all(self, patterns: Iterable[str], without: Iterable[str]) -> dict[str, Pair]:
        """The files of all names that match a pattern, in both languages."""
        used = set(without)
        found: dict[str, Pair] = {}
        for pattern in patterns:
            for name in self.names(pattern):
                if name not in used and name not in found:
                    found[name] = self.pair(name)
        if not found:
            raise UserError(
                f"{self.folder} has no test set {' or '.join(patterns)} in both "
                f"{' and '.join(self.languages)}; it has {self.content()}."
            )
        return found

    def names(self, pattern: str) -> list[str]:
        """The names in both languages that match a pattern.

        A name ends at its first dot if that makes it neither ambiguous nor another one.
        """
        stems = sorted(self.files[0].keys() & self.files[1].keys())
        if pattern in {stem.partition(".")[0] for stem in stems}:
            return [pattern]
        short: dict[str, list[str]] = {}
        for stem in stems:
            first = stem.partition(".")[0]
            if fnmatchcase(first, pattern) or fnmatchcase(stem, pattern):
                short.setdefault(first, []).append(stem)
        names = []
        for first, several in short.items():
            names += [first] if len(several) == 1 and fnmatchcase(first, pattern) else several
        return sorted(names)

    def pair(self, name: str) -> Pair:
        """The only file of a name in each language."""
        paths = []
        for files, language in zip(self.files, self.languages):
            found = self.matches(name, files)
            if len(found) != 1:
                listed = ", ".join(path.name for path in found) or self.content()
                raise UserError(
                    f"{self.folder} must have exactly one file of {name} in {language} "
                    f"({name}.{language} or {name}.*.{language}, which may be compressed); "
                    f"it has {listed}."
                )
            paths += found
        return paths[0], paths[1]

    def matches(self, name: str, files: dict[str, list[Path]]) -> list[Path]:
        """The files ``NAME`` and ``NAME.anything``."""
        return [
            path
            for stem, paths in files.items()
            if stem == name or stem.startswith(f"{name}.")
            for path in paths
        ]

    def content(self) -> str:
        """The names of the files, for errors."""
        names = sorted(path.name for path in self.folder.iterdir())
        return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "") or "no files"


def unpack_pair(pair: Pair, folder: Path, name: str, languages: tuple[str, str]) -> int:
    """Write the text of both languages without compression and return the number of lines."""
    count = 0
    with PairWriter(folder, name, languages) as writer:
        for _, (source, target) in read_parallel([*map(str, pair)]):
            count += 1
            writer.write(source.removesuffix("\n"), target.removesuffix("\n"))
    if not count:
        raise UserError(f"{pair[0]} and {pair[1]} have no lines.")
    return count


def download(settings: DataSettings, languages: tuple[str, str], folder: Path) -> None:
    """Download the text of all splits to a folder; files that are there are kept.

    Raises:
        UserError: if an address does not answer, or a file cannot be written.
    """
    # It imports urllib, which would delay a dry run.
    from ..common import archives

    assert settings.download is not None
    folder.mkdir(parents=True, exist_ok=True)
    for name in names_to_download(settings):
        for language in languages:
            address = settings.download.replace("{name}", name).replace("{language}", language)
            suffix = Path(address).suffix if Path(address).suffix in OPENERS else ""
            path = folder / f"{name}.{language}{suffix}"
            if not path.exists():
                with atomic_path(str(path)) as partial:
                    archives.download(address, Path(partial))


def names_to_download(settings: DataSettings) -> list[str]:
    """The names to download: of train, of valid, and of the test sets."""
    names = settings.download_names
    return [
        names.get("train", settings.train)[0],
        names.get("valid", settings.valid)[0],
        *names.get("test", [name for name in settings.test if not set("*?[") & set(name)]),
    ]
