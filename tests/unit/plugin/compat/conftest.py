"""All changes of fairseq are made, in whichever order the tests run."""

import pytest


@pytest.fixture(autouse=True)
def all_changes():
    # Where fairseq is missing, the tests of this folder are skipped.
    from convs2s_plugin.compat import enable_all

    enable_all()
