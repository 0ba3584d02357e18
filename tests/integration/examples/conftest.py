"""Fixtures of the tests of the recipes."""

import gzip
import importlib.util
import sys

import pytest

from tests import ROOT
from tests.commands import server

EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))


@pytest.fixture
def load(monkeypatch):
    """A function that loads a module of a recipe, given as FOLDER/FILE.py."""

    def load(path):
        monkeypatch.syspath_prepend((EXAMPLES / path).parent)
        name = path.removesuffix(".py").replace("/", "_")
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture
def quick_programs(monkeypatch):
    """Recipes start their programs as forks of a process that has imported fairseq."""
    monkeypatch.setattr("recipe.find_program", lambda name: [str(server().programs / name)])


@pytest.fixture
def raw_dir(corpus, tmp_path):
    """The tiny corpus with the file names of Multi30k."""
    for split, name in (("train", "train"), ("valid", "val"), ("test", "test")):
        for language in ("de", "en"):
            text = (corpus / f"{split}.{language}").read_bytes()
            (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(text))
    return tmp_path
