"""All changes of fairseq are made, in whichever order the tests run."""

import pytest

from convs2s_plugin.compat import enable_all


@pytest.fixture(autouse=True)
def all_changes():
    enable_all()
