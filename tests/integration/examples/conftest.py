"""The tests import the modules of the demo."""

import sys

from tests import ROOT

sys.path.insert(0, str(ROOT / "examples" / "demo"))
