"""``convs2s_plugin.nn`` is plain torch: it imports no fairseq, no family, and no decoding."""

import subprocess
import sys
from pathlib import Path

import convs2s_plugin

PROGRAM = """
import importlib, pathlib, sys, types
package = types.ModuleType("p")
package.__path__ = [sys.argv[1]]
sys.modules["p"] = package
for path in pathlib.Path(sys.argv[1], "nn").glob("*.py"):
    importlib.import_module(f"p.nn.{path.stem}")
print(*sorted({name.split(".")[1] for name in sys.modules if name.startswith("p.")}))
assert "fairseq" not in sys.modules
"""


def test_nn_imports_nothing_of_the_package_but_errors():
    folder = Path(convs2s_plugin.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, folder], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["errors", "nn"]
