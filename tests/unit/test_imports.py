"""Dependencies point downwards: what parts of the package import in a new interpreter."""

import json
import subprocess
import sys

from tests import ROOT

PROGRAM = """
import importlib, json, pathlib, pkgutil, sys, types

folder, bare, names, code = json.loads(sys.argv[1])
for name in bare:
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = [str(pathlib.Path(folder, *name.split(".")[1:]))]
for name in names:
    module = importlib.import_module(name)
    for inner in pkgutil.iter_modules(getattr(module, "__path__", [])):
        importlib.import_module(f"{name}.{inner.name}")
exec(code)
print(json.dumps(sorted(sys.modules)))
"""


def imported(*names, bare=(), code=""):
    """All modules of an interpreter that has imported these modules and those inside them.

    Args:
        names: modules, without the name of the package.
        bare: packages around them; their ``__init__.py`` is left out.
        code: runs after the imports; there the package is called ``p``.
    """
    bare = ["p", *(f"p.{name}" for name in bare)]
    arguments = (str(ROOT / "convs2s_plugin"), bare, [f"p.{name}" for name in names], code)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(arguments)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_lexicon_needs_neither_torch_nor_fairseq():
    assert not {"torch", "fairseq"} & imported("lexicon")
    assert "numpy" not in imported("lexicon.files")


def test_the_preparation_of_text_needs_neither_torch_nor_fairseq():
    assert not {"torch", "fairseq", "sacremoses", "sentencepiece"} & imported("preparation")


def test_reranking_by_given_scores_needs_neither_torch_nor_fairseq():
    modules = imported("reranking.nbest", "reranking.mbr", "reranking.tuning")
    assert not {"torch", "fairseq"} & modules


def test_nn_imports_nothing_else_of_the_package_but_errors():
    modules = imported("nn")
    assert {name.split(".")[1] for name in modules if name.startswith("p.")} == {"errors", "nn"}
    assert "fairseq" not in modules
