"""Loading trained models from the folders of their training runs.

translator = load_translator("prepared/checkpoints")
translator.translate(["Zwei Hunde rennen."])[0].text
"""

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlparse

import torch

from ..checkpoints.folders import find_checkpoints
from ..common import archives
from ..common.errors import UserError, check_names
from ..common.user_code import import_user_code
from ..text.tokenizers import import_extra
from .buffers import TextProcessor
from .decoding import Model
from .loading import load_model
from .translator import OPTIONS, Translator

# Names of BPE codes in fairseq's archives.
BPE_CODES = ("bpecodes", "code")
# Arguments of fairseq's hub, and the values that are allowed here.
FAIRSEQ_VALUES = {
    "tokenizer": ("moses",),
    "bpe": ("subword_nmt",),
    "task": ("translation", "convs2s_translation"),
}

_OF_A_TRANSLATOR = OPTIONS - {"data", "load"}
_OF_FAIRSEQ = (*FAIRSEQ_VALUES, "moses_no_dash_splits", "moses_no_escape", "user_dir")


class MosesText:
    """Text that is tokenized by Moses as in fairseq's hub, then split into sub-words.

    Args:
        subwords: makes sub-words from tokens.
        languages: source and target.
        moses_no_dash_splits, moses_no_escape: as for fairseq.
    Raises:
        UserError: if sacremoses is not installed.
    """

    def __init__(
        self,
        subwords: TextProcessor,
        languages: tuple[str, str],
        moses_no_dash_splits: bool = False,
        moses_no_escape: bool = False,
    ):
        package = import_extra("sacremoses", "tokenizer='moses'")
        self._tokenizer = package.MosesTokenizer(languages[0])
        self._detokenizer = package.MosesDetokenizer(languages[1])
        self._options = {
            "aggressive_dash_splits": not moses_no_dash_splits,
            "escape": not moses_no_escape,
        }
        self._subwords = subwords
        self._of_target = (subwords, languages[::-1], moses_no_dash_splits, moses_no_escape)

    @property
    def target(self) -> "MosesText":
        """The same for text of the target language."""
        return MosesText(*self._of_target)

    def encode(self, line: str) -> str:
        """The sub-words of a line, separated by spaces."""
        tokens = self._tokenizer.tokenize(line.strip(), return_str=True, **self._options)
        return self._subwords.encode(tokens)

    def decode(self, tokens: str) -> str:
        """The text of sub-words."""
        text: str = self._detokenizer.detokenize(self._subwords.decode(tokens).split())
        return text


def load_translator(
    path: str | Path,
    checkpoint_file: str | None = None,
    data_name_or_path: str | None = None,
    load: Callable[..., Model] = load_model,
    **options: Any,
) -> Translator:
    """Load a trained model from its folder.

    Args:
        path: the folder of a training run, that of ``convs2s prepare`` above it, or a checkpoint;
            or the address of an archive of such a folder, see ``download``.
        checkpoint_file: the checkpoint in the folder, or several separated by colons, which form an
            ensemble. By default, the first of ``CHECKPOINT_FILES`` in the folder or in
            ``checkpoints`` below it.
        data_name_or_path: the folder of the dictionaries; a path that starts with ``.`` is in the
            folder of the model, as in fairseq. By default, they are searched for as by
            ``Translator``.
        load: builds models; see ``Translator``.
        options: those of ``Translator``; by default, the device is the CPU. Also those of
            fairseq's hub: ``tokenizer="moses"``, ``bpe="subword_nmt"``, ``user_dir``; ``task``
            changes nothing.
    Raises:
        UserError: if a file cannot be read or does not fit, or an option is not allowed.
    """
    _check_options(options)
    import_user_code(options.get("user_dir"))
    folder = download(str(path)) if archives.is_address(str(path)) else Path(path)
    paths = find_checkpoints(folder, checkpoint_file)
    given = {name: options[name] for name in options if name in _OF_A_TRANSLATOR}
    given.setdefault("device", "cpu")
    if data_name_or_path not in (None, "."):
        inside = str(data_name_or_path).startswith(".")
        given["data"] = folder / str(data_name_or_path) if inside else data_name_or_path
    tokenizer, bpe = options.get("tokenizer"), options.get("bpe")
    if bpe is not None and not given.get("bpe_codes"):
        given["bpe_codes"] = _find_codes(paths[0].parent)
    if tokenizer is not None and not given.get("bpe_codes"):
        given["raw"] = True
    translator = Translator(paths, load=load, **given)
    if tokenizer is not None:
        moses = {name: options[name] for name in options if name.startswith("moses_")}
        translator.text = MosesText(translator.text, translator.languages, **moses)
    return translator


def download(address: str) -> Path:
    """The folder of a model, downloaded to the cache of ``torch.hub`` unless it is already there.

    Args:
        address: address of a tar archive, possibly compressed, of the folder.
    Raises:
        UserError: if the address cannot be read, or the file is not such an archive.
    """
    name = PurePosixPath(urlparse(address).path).name.partition(".")[0]
    digest = hashlib.sha256(address.encode()).hexdigest()[:16]
    cache = Path(torch.hub.get_dir()) / "convs2s_plugin"
    folder = cache / f"{name}-{digest}"
    if not folder.is_dir():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as temporary:
                archive, new = Path(temporary, "archive"), Path(temporary, "model")
                archives.download(address, archive)
                new.mkdir()
                archives.unpack(archive, new, lambda name: True, address)
                try:
                    new.rename(folder)
                except OSError:
                    # Unless another thread or process has downloaded it in the meantime.
                    if not folder.is_dir():
                        raise
        except OSError as error:
            raise UserError(f"{cache} cannot be written: {error.strerror or error}.") from error
    # An archive usually holds the folder, rather than what is in it.
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _find_codes(folder: Path) -> Path:
    for name in BPE_CODES:
        if (folder / name).is_file():
            return folder / name
    raise UserError(
        f"bpe='subword_nmt' needs BPE codes: give bpe_codes, since {folder} has neither "
        f"{' nor '.join(BPE_CODES)}."
    )


def _check_options(options: dict[str, Any]) -> None:
    """Check the names of options, and the values of fairseq's.

    Raises:
        UserError: if one is not allowed.
    """
    check_names(options, {*_OF_A_TRANSLATOR, *_OF_FAIRSEQ}, "a model that translates")
    for name, values in FAIRSEQ_VALUES.items():
        value = options.get(name)
        if value is not None and value not in values:
            raise UserError(
                f"{name}='{value}' is not available here; allowed: {', '.join(values)}. A model of "
                "text that `convs2s prepare` prepared needs none: its preparation.yaml is found."
            )
    if options.get("tokenizer") or options.get("bpe"):
        for name in ("preparation", "raw"):
            if options.get(name):
                raise UserError(f"{name} excludes tokenizer and bpe: give one of them.")
