"""Properties of random models: CONVS2S_CASES cases, by default 100."""

import json
import os
import shlex
import subprocess

from hypothesis import HealthCheck, Phase, example, given, note, settings

from tests import ROOT
from tests.properties.cases import cases
from tests.properties.properties import PROPERTIES
from tests.support.commands import server

NUMBER = int(os.environ.get("CONVS2S_CASES", "100"))
EXAMPLE = {
    "family": "convs2s",
    "options": {"encoder_layers": "[(8, 3)]", "decoder_layers": "[(8, 2)]"},
    "lengths": [[3, 2]],
    "left_pad_source": True,
    "left_pad_target": False,
    "precision": "float64",
    "chunks": [1],
    "beam": 2,
    "seed": 1,
}

# Cases that failed once.
HEADS_OF_ONE_CHANNEL = {
    **EXAMPLE,
    "family": "adl",
    "options": {
        "encoder_adl": "linear",
        "decoder_adl": "mh_dot_self_att(h=4, d=4) -> mh_dot_src_att(h=4, d=4)",
        "model_dim": 4,
    },
    "lengths": [[2, 1], [2, 1]],
}


def command(case, *names):
    """The command that repeats a case."""
    return shlex.join(["python", "-m", "tests.properties", json.dumps(case), *names])


@settings(
    max_examples=NUMBER,
    # The same cases in each run of the tests; others in a longer run.
    derandomize=NUMBER == 100,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    print_blob=False,
)
@given(cases())
@example(HEADS_OF_ONE_CHANNEL)
def test_every_property_holds(case):
    for check in PROPERTIES:
        try:
            check(case)
        except Exception:
            note(f"Repeat it: {command(case, check.__name__)}")
            raise


def test_a_case_can_be_repeated():
    done = subprocess.run(
        [server().programs / "python", *shlex.split(command(EXAMPLE, "search"))[1:]],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and done.stdout == "search: holds\n", done.stderr
