"""Weights that are infinite, not a number, or no plain tensors: refused where they are read."""

import pytest
import torch

from convs2s.checkpoints.files import load_checkpoint
from convs2s.checkpoints.weights import is_finite
from convs2s.cli import main
from convs2s.common.errors import UserError
from tests.integration.test_damaged_models import convs2s, interactive
from tests.support import faults
from tests.support.commands import refused
from tests.support.translation import DATA, FIXTURES

NAME = "encoder.output.weight_v"
NESTED = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])


def filled(tensor, value):
    tensor = tensor.clone()
    tensor[-1] = value
    return tensor


# What takes the place of a weight, and what the error says of it.
KINDS = {
    "NaN": (lambda weight: filled(weight, torch.nan), "has NaN"),
    "infinite": (lambda weight: filled(weight, -torch.inf), "has an infinite number"),
    "half": (lambda weight: filled(weight.half(), torch.inf), "has an infinite number"),
    "complex": (lambda weight: weight.to(torch.complex64), "is of type complex64"),
    "sparse": (lambda weight: weight.to_sparse(), "is a sparse tensor"),
    "csr": (lambda weight: weight.to_sparse_csr(), "is a sparse tensor"),
    "nested": (lambda weight: NESTED, "is a nested tensor"),
    "meta": (lambda weight: weight.to("meta"), "is a tensor without numbers"),
    "quantized": (
        lambda weight: torch.quantize_per_tensor(weight, 0.1, 0, torch.qint8),
        "is a tensor that torch quantized",
    ),
    "boolean": (lambda weight: weight > 0, "is of type bool"),
    "integers": (lambda weight: weight.long(), "is of type int64"),
    "int8": (lambda weight: weight.to(torch.int8), "is of type int8"),
    "expanded": (lambda weight: torch.zeros(1, 1).expand(weight.shape), "is a view that repeats"),
}


def changed(path, name, make, source=FIXTURES / "convs2s.pt"):
    """A checkpoint with another weight."""
    checkpoint = torch.load(source, weights_only=True)
    checkpoint["model"][name] = make(checkpoint["model"][name])
    torch.save(checkpoint, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_weights(kind, tmp_path):
    make, said = KINDS[kind]
    path = changed(tmp_path / "damaged.pt", NAME, make)
    with pytest.raises(UserError, match=f"{path} cannot be used: its weight {NAME} {said}"):
        load_checkpoint(str(path))
    # It reads any version, and takes tensors that are not plain for foreign objects.
    error = convs2s("clean-checkpoint", path, tmp_path / "new.pt")
    assert f"{path} cannot be" in error and NAME in error
    assert not (tmp_path / "new.pt").exists()


def poisoned(path, source=FIXTURES / "convs2s.pt"):
    return changed(path, NAME, KINDS["NaN"][0], source)


GIVEN = "--path MODEL --data DATA --raw --device cpu"
COMMANDS = {
    "translate": f"{GIVEN}",
    "translate, ensemble": f"{GIVEN} --path GOOD:MODEL",
    "translate, int8": f"{GIVEN} --int8",
    "score": f"{GIVEN} --input SOURCE --target-input TARGET",
    "plot-attention": "--path MODEL --data DATA --raw --output NEW.json eins",
    "average": "--inputs GOOD MODEL --output NEW",
    "quantize": "MODEL NEW",
    "clean-checkpoint": "MODEL NEW",
    "convert-fconv": "MODEL NEW",
    "convert-lightconv": "MODEL NEW",
    "export-transformer": "MODEL NEW",
    "export-onnx": "MODEL NEW --data DATA",
    "compile": "MODEL --data DATA",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command, tmp_path):
    """Nothing is written."""
    names = {
        "MODEL": poisoned(tmp_path / "model.pt"),
        "GOOD": FIXTURES / "convs2s.pt",
        "DATA": DATA,
        "SOURCE": DATA / "test.de",
        "TARGET": DATA / "test.en",
        "NEW": tmp_path / "new",
        "NEW.json": tmp_path / "new.json",
    }
    names["GOOD:MODEL"] = f"{names['GOOD']}:{names['MODEL']}"
    given = [names.get(word, word) for word in COMMANDS[command].split()]
    error = convs2s(command.partition(",")[0], *given)
    assert f"model.pt cannot be used: its weight {NAME} has NaN (not a number)" in error
    assert [path.name for path in tmp_path.iterdir()] == ["model.pt"]


def test_programs_of_fairseq(tmp_path):
    path = poisoned(tmp_path / "model.pt")
    error = refused(interactive("--path", path))
    assert error.startswith(f"{path} cannot be used: its weight {NAME} has NaN")


def test_from_pretrained(tmp_path):
    pytest.importorskip("fairseq")
    from convs2s_plugin.hub import from_pretrained

    path = poisoned(tmp_path / "model.pt")
    with pytest.raises(UserError, match=f"model.pt cannot be used: its weight {NAME} has NaN"):
        from_pretrained(path, data_name_or_path=str(DATA))


@pytest.mark.parametrize("option", ["--restore-file", "--finetune-from-model"])
def test_training_from_a_model(option, corpus, trained, tmp_path):
    path = poisoned(tmp_path / "model.pt", trained / "checkpoint_last.pt")
    error = faults.sentence(faults.train(corpus, tmp_path / "new", option, path))
    assert error.startswith(f"{path} cannot be used: its weight {NAME} has NaN")


def test_the_state_of_an_optimizer(corpus, trained, tmp_path):
    """It matters only if a training run continues with it."""
    checkpoint = torch.load(trained / "checkpoint_last.pt", weights_only=True)
    checkpoint["last_optimizer_state"]["state"][1]["exp_avg"][0] = torch.nan
    path, new = tmp_path / "model.pt", tmp_path / "new.pt"
    torch.save(checkpoint, path)
    given = ("--restore-file", path, "--max-epoch", "13", "--no-save")
    error = faults.sentence(faults.train(corpus, tmp_path / "a", *given))
    assert "state of the optimizer that is infinite or not a number (state.1.exp_avg)" in error
    assert "--reset-optimizer" in error
    done = faults.train(corpus, tmp_path / "b", *given, "--reset-optimizer")
    assert done.returncode == 0, done.stderr
    error = convs2s("clean-checkpoint", path, new)
    assert f"{path} has a state of the optimizer" in error and "--drop-optimizer" in error
    assert not new.exists()


def test_scales_of_int8(tmp_path):
    path, name = tmp_path / "int8.pt", "encoder.embed.words.weight"
    assert main(["quantize", str(FIXTURES / "convs2s.pt"), str(path)]) == 0
    damaged = [
        (f"{name}.scale", KINDS["NaN"][0], "has NaN"),
        (f"{name}.int8", lambda weight: weight.int(), "is of type int32"),
        (f"{name}.int8", lambda weight: weight.float(), "is of type float32"),
        (f"{name}.scale", lambda weight: weight.long(), "is of type int64"),
    ]
    for name, make, said in damaged:
        other = changed(tmp_path / "other.pt", name, make, path)
        given = ("--path", other, "--data", DATA, "--raw", "--device", "cpu")
        error = convs2s("translate", *given)
        assert name in error and said in error


def test_averages_of_other_types(tmp_path):
    name = "encoder.output.bias"
    path = changed(tmp_path / "other.pt", name, lambda weight: weight.long())
    good = FIXTURES / "convs2s.pt"
    error = convs2s("average", "--inputs", good, path, "--output", tmp_path / "new.pt")
    assert "has weights with other names, shapes or types" in error
    error = convs2s("translate", "--path", path, "--data", DATA, "--raw")
    assert f"The weight {name} of the checkpoint is of type int64" in error


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_large_numbers_are_finite(dtype):
    largest = torch.full((9, 3), torch.finfo(dtype).max, dtype=dtype)
    assert is_finite(largest) and is_finite(-largest) and is_finite(largest[:0])
    for value in (torch.nan, torch.inf, -torch.inf):
        largest[4, 1] = value
        assert not is_finite(largest)
    assert not is_finite(torch.tensor([torch.inf, -torch.inf], dtype=dtype))


@pytest.mark.parametrize("number", ["nan", "-inf", "1e99"])
def test_embeddings_that_training_begins_with(number, tmp_path):
    pytest.importorskip("fairseq")
    from convs2s_plugin.models.embeddings import load_embeddings_
    from tests.support.adapters import dictionary

    path = tmp_path / "vectors"
    path.write_text(f"2 2\nw1 0.5 0.25\nw2 0.5 {number}\n")
    with pytest.raises(UserError, match=f"embedding of 'w2' in {path} has a number that is infin"):
        load_embeddings_(torch.nn.Embedding(len(dictionary()), 2), str(path), dictionary())
    with pytest.raises(UserError, match=f"embedding of 'w1' in {path} has 2 numbers, not 3"):
        load_embeddings_(torch.nn.Embedding(len(dictionary()), 3), str(path), dictionary())
