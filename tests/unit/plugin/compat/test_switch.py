"""What importing the package changes in fairseq, and that CONVS2S_COMPAT=0 changes nothing."""

import json
import os
import subprocess
import sys

import pytest

from convs2s.common.errors import UserError
from convs2s_plugin.compat.switch import VARIABLE, enabled
from tests import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")

# Prints the names in fairseq, and some in torch and Python, whose values the import changes.
CHANGES = """
import json, sys
from types import ModuleType
import torch
import fairseq_cli.generate, fairseq_cli.interactive, fairseq_cli.train, fairseq_cli.validate

def attributes():
    found = {"sys.excepthook": sys.excepthook}
    found["torch.load"] = set(torch.serialization.get_safe_globals())
    for module in [m for n, m in sys.modules.items() if n.split(".")[0].startswith("fairseq")]:
        for name, value in vars(module).items():
            if isinstance(value, ModuleType) or name == "__warningregistry__":
                continue
            found[f"{module.__name__}.{name}"] = value
            if isinstance(value, type) and value.__module__ == module.__name__:
                for part, inner in vars(value).items():
                    found[f"{module.__name__}.{name}.{part}"] = inner
    return found

modules = set(sys.modules)
before = attributes()
import convs2s_plugin
after = {n: v for n, v in attributes().items() if n.rpartition(".")[0] in modules or n in before}
same = lambda old, new: old is new or isinstance(old, set) and old == new
missing = object()
print(json.dumps(sorted(n for n in {**before, **after}
                        if not same(before.get(n, missing), after.get(n, missing)))))
from fairseq.models import ARCH_MODEL_REGISTRY
assert "convs2s" in ARCH_MODEL_REGISTRY
"""


def changes(value):
    """The changed names, with a value of CONVS2S_COMPAT."""
    done = subprocess.run(
        [sys.executable, "-c", CHANGES],
        env={**os.environ, VARIABLE: value, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_zero_leaves_fairseq_as_it_is():
    assert changes("0") == []


def test_the_page_names_every_change():
    changed = changes("1")
    named = {name for name in changed if not name.endswith(".eval")}
    assert "fairseq.optim.adam.eval" in changed and "`eval`" in PAGE
    assert "fairseq.data.data_utils.batch_by_size" in named
    missing = [name for name in named if f"`{name.removeprefix('fairseq.')}`" not in PAGE]
    assert not missing


@pytest.mark.parametrize("value", [None, "0", "1", "no"])
def test_values(value, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(VARIABLE, value)
    if value == "no":
        with pytest.raises(UserError, match="CONVS2S_COMPAT is 'no', but must be 0"):
            enabled()
    else:
        assert enabled() == (value != "0")
