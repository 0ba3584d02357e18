"""Fixtures of the tests of the examples."""

import importlib.util
import sys

import pytest

from tests import ROOT

EXAMPLES = ROOT / "examples"
# The modules of an example import one another.
sys.path[:0] = [str(EXAMPLES), str(EXAMPLES / "demo")]


@pytest.fixture
def load(monkeypatch):
    """A function that loads a module of an example, given as FOLDER/FILE.py."""

    def load(path):
        monkeypatch.syspath_prepend((EXAMPLES / path).parent)
        name = path.removesuffix(".py").replace("/", "_")
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
