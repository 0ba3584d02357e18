"""What is fuzzed: each target takes bytes, and may raise the documented errors only."""

import contextlib
import os
import tempfile
from collections import deque
from pathlib import Path

from convs2s.checkpoints.averaging import average
from convs2s.checkpoints.files import num_updates
from convs2s.checkpoints.legacy.reading import clean, read_old_checkpoint
from convs2s.common.archives import unpack
from convs2s.common.errors import UserError
from convs2s.evaluation.links import read_gold
from convs2s.experiments.reader import read_experiment
from convs2s.models.adl import Settings, resolve
from convs2s.models.adl.language.patterns import definition_of_pattern
from convs2s.models.adl.language.spec import ENCODER
from convs2s.models.convs2s.layer_lists import parse_attention, parse_layers
from convs2s.text.lexicon.files import read_lexicon, read_translations
from convs2s.text.preparation import read_content
from convs2s_plugin.compat.data_files import check_binarized
from convs2s_plugin.compat.evaluated_options import parse_value

SETTINGS = Settings(model_dim=16, attention_heads=4)
FOLDER = tempfile.TemporaryDirectory(prefix="fuzz")
ALLOWED = contextlib.suppress(UserError)


def adl(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    for dialect in ("paper", "sockeye"):
        for feeding in (False, True):
            with ALLOWED:
                resolve(text, text, SETTINGS, dialect, input_feeding=feeding)


def patterns(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with ALLOWED:
        resolve(definition_of_pattern(text, ENCODER), "id", SETTINGS)


def layer_lists(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    with ALLOWED:
        parse_layers(text)
    with ALLOWED:
        parse_attention(text, 3)


def options(data: bytes) -> None:
    with ALLOWED:
        parse_value(data.decode("utf-8", "replace"))


def lexicon(data: bytes) -> None:
    path = _file(data)
    with ALLOWED:
        deque(read_lexicon(path), maxlen=0)
    with ALLOWED:
        read_translations(path)


def links(data: bytes) -> None:
    with ALLOWED:
        read_gold(_file(data))


def yaml_files(data: bytes) -> None:
    path = Path(_file(data))
    with ALLOWED:
        read_experiment(path)
    with ALLOWED:
        read_content(path)


def checkpoints(data: bytes) -> None:
    path = _file(data)
    num_updates(path)
    with ALLOWED:
        average([path])
    with ALLOWED:
        clean(read_old_checkpoint(path), path)


def archives(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, ALLOWED:
        unpack(Path(_file(data)), Path(folder), lambda name: True, "archive")


def binarized(data: bytes) -> None:
    """The first half is an index, the second one its data."""
    path = _file(b"", "data")
    half = len(data) // 2
    Path(f"{path}.idx").write_bytes(data[:half])
    Path(f"{path}.bin").write_bytes(data[half:])
    with ALLOWED:
        check_binarized(path, 100)


def _file(data: bytes, name: str = "input") -> str:
    path = os.path.join(FOLDER.name, name)
    Path(path).write_bytes(data)
    return path


TARGETS = {
    target.__name__: target
    for target in (
        adl,
        patterns,
        layer_lists,
        options,
        lexicon,
        links,
        yaml_files,
        checkpoints,
        archives,
        binarized,
    )
}
