"""Dependencies point downwards: what parts of the library import in a new interpreter."""

import json
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import importlib, json, pkgutil, sys

for name in sys.argv[1:]:
    module = importlib.import_module(name)
    for inner in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
        if not inner.name.endswith("__main__"):
            importlib.import_module(inner.name)
print(json.dumps(sorted(sys.modules)))
"""


def imported(*names):
    """All modules of an interpreter that has imported these modules and those inside them."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *names], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_library_never_imports_fairseq():
    assert not {"fairseq", "omegaconf", "convs2s_plugin"} & imported("convs2s")


@pytest.mark.parametrize(
    "name, more",
    [
        ("models.adl.language", {"numpy"}),
        ("models.convs2s.layer_lists", {"numpy"}),
        ("text", {"sacremoses", "sentencepiece"}),
        ("text.lexicon.files", {"numpy"}),
        ("evaluation", {"nltk", "rouge_score"}),
        ("experiments", set()),
        ("pictures.training", {"matplotlib"}),
    ],
)
def test_parts_that_need_no_torch(name, more):
    assert not {"torch", *more} & imported(f"convs2s.{name}")


def test_nn_imports_nothing_else_of_the_library_but_what_is_common():
    parts = {name.split(".")[1] for name in imported("convs2s.nn") if name.startswith("convs2s.")}
    assert parts == {"common", "nn"}
