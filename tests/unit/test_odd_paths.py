"""Paths that no file can have, which command lines cannot hold, but Python calls and YAML can."""

from pathlib import Path

import pytest

from convs2s.checkpoints.averaging import average, save_average
from convs2s.checkpoints.files import load_checkpoint, num_updates, save_checkpoint
from convs2s.checkpoints.legacy.attn2d_files import Params, read_vocabulary
from convs2s.checkpoints.legacy.reading import read_old_checkpoint
from convs2s.checkpoints.networks import read_checkpoint
from convs2s.common.archives import is_archive, unpack
from convs2s.common.data_files import read_json, read_yaml
from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_folder, make_folder, write_lines
from convs2s.common.text_files import read_text
from convs2s.evaluation.links import read_gold
from convs2s.evaluation.systems import parse_system, read_references, read_sentences
from convs2s.experiments.reader import read_experiment
from convs2s.experiments.training.request import read_data
from convs2s.pictures.lengths import read_length_results
from convs2s.pictures.sweep import read_sweep
from convs2s.pictures.training import read_training_curves
from convs2s.text.lexicon.files import read_lexicon, read_translations
from convs2s.text.preparation import Preparation
from convs2s.text.sources import ParallelText
from convs2s.text.subwords import SentencePiece, SubwordNmt
from convs2s.text.vocabulary import Vocabulary
from convs2s.translation.pretrained import load_translator
from convs2s.translation.translator import Translator


def written(folder):
    with atomic_folder(folder):
        pytest.fail("was opened")


CALLS = {
    "average": lambda path: average([path]),
    "save_average": lambda path: save_average([path], path),
    "load_checkpoint": load_checkpoint,
    "save_checkpoint": lambda path: save_checkpoint({}, path),
    "read_old_checkpoint": read_old_checkpoint,
    "read_checkpoint": read_checkpoint,
    "Params": Params.read,
    "read_vocabulary": read_vocabulary,
    "is_archive": lambda path: is_archive(Path(path), path),
    "unpack": lambda path: unpack(Path(path), Path("."), lambda name: True, path),
    "read_json": read_json,
    "read_yaml": read_yaml,
    "atomic_folder": written,
    "make_folder": make_folder,
    "write_lines": lambda path: write_lines(path, []),
    "read_text": read_text,
    "read_gold": read_gold,
    "parse_system": parse_system,
    "read_references": lambda path: read_references([path]),
    "read_sentences": lambda path: [*read_sentences(path)],
    "read_experiment": lambda path: read_experiment(Path(path)),
    "read_data": lambda path: read_data(Path(path)),
    "read_length_results": read_length_results,
    "read_sweep": read_sweep,
    "read_training_curves": read_training_curves,
    "read_lexicon": lambda path: [*read_lexicon(path)],
    "read_translations": read_translations,
    "Preparation": Preparation.read,
    "ParallelText": lambda path: ParallelText("--train", (path, path)),
    "SubwordNmt": lambda path: SubwordNmt(Path(path)),
    "SentencePiece": lambda path: SentencePiece(Path(path)),
    "Vocabulary.load": Vocabulary.load,
    "Vocabulary.save": lambda path: Vocabulary().save(path),
    "load_translator": load_translator,
    "load_translator of a file": lambda path: load_translator(".", path),
    "Translator": lambda path: Translator([path]),
}


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("call", CALLS)
def test_a_path_that_cannot_exist_is_refused(call, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError):
        CALLS[call](path)
    assert not [*tmp_path.iterdir()]


def test_there_are_no_updates_in_a_file_that_cannot_exist():
    assert num_updates("a\0b") is None and num_updates("a\ud800b") is None
