"""Networks without initial weights: the same shapes, no random numbers, no compiler."""

import subprocess
import sys

import torch
from torch import nn

from convs2s.nn.uninitialized import WithoutInitialization, without_memory
from tests.support.families import MODELS, make
from tests.support.translation import DATA, FIXTURES


def test_no_random_number_is_drawn():
    torch.manual_seed(1)
    state = torch.get_rng_state()
    with WithoutInitialization():
        module = nn.Sequential(nn.Linear(3, 4), nn.Embedding(5, 6, padding_idx=1), nn.LSTM(3, 4))
        nn.init.xavier_uniform_(module[0].weight)
        nn.init.xavier_normal_(module[0].weight)
    assert torch.equal(torch.get_rng_state(), state)
    assert module[0].weight.shape == (4, 3)
    # What is not random is as ever.
    assert torch.equal(module[1].weight[1], torch.zeros(6))


def test_initial_weights_are_random_again_afterwards():
    with WithoutInitialization():
        pass
    assert nn.Linear(30, 40).weight.std() > 0.05


def test_every_family_is_built_without_memory():
    for name in MODELS:
        with without_memory():
            model = make(name)
        tensors = [*model.parameters(), *model.buffers()]
        assert tensors and all(tensor.is_meta for tensor in tensors), name


def test_networks_without_memory_do_not_import_the_compiler():
    """Whatever is computed for the initial weights of a family."""
    program = (
        "import sys\n"
        "from convs2s.nn.uninitialized import without_memory\n"
        "from tests.support.families import MODELS, make\n"
        "for name in MODELS:\n"
        "    with without_memory():\n"
        "        make(name)\n"
        "    assert 'torch._dynamo' not in sys.modules, name\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()


def test_translating_does_not_import_the_compiler():
    program = (
        "import sys; from convs2s.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or 'torch._dynamo' in sys.modules)"
    )
    for family in ("convs2s", "adl", "pervasive"):
        path = FIXTURES / f"{family}.pt"
        given = ["--path", path, "--data", DATA, "--raw", "--device", "cpu"]
        command = [sys.executable, "-c", program, "translate", *map(str, given)]
        done = subprocess.run(command, input=b"eins zwei\n", capture_output=True, timeout=100)
        assert done.returncode == 0 and done.stdout, done.stderr.decode()
