"""Passes through small networks: what is computed and kept, with the shapes that were there.

Figures take their order, shapes and files from these records; the words in their boxes are theirs.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn

import convs2s
from convs2s.models.interface import Network
from convs2s.models.pervasive import densenet_training
from convs2s.models.pervasive.feature_buffer import FeatureBuffer
from convs2s.models.pervasive.grid import Grid
from convs2s.nn.cross_entropy import linear_cross_entropy
from convs2s.nn.state import BeamOrder, State, reorder_encoder_output
from convs2s.translation.best_tokens import best_continuations
from docs.small_models import FAMILIES, Batch, batch, build

PACKAGE = Path(convs2s.__file__).parent
BEAM, STEPS = 4, 5


class Call(NamedTuple):
    """One call of a module or of a function.

    Attributes:
        path: of the module in the network, or the name of the function.
        shape: that of its output.
        file: where it is defined, beside the network or in the package.
    """

    path: str
    shape: tuple[int, ...]
    file: str


@contextmanager
def recorded(network: Network, functions: Sequence[tuple[Any, str]] = ()) -> Iterator[list[Call]]:
    """In its body, record the calls of all modules, in the order in which they return.

    Args:
        network: the network.
        functions: others to record: a Python module or a class, and the name in it.
    """
    calls: list[Call] = []

    def add(path: str, output: Any, definition: Any) -> None:
        first = output[0] if isinstance(output, tuple) else output
        calls.append(Call(path, tuple(first.shape), defined_in(definition, network)))

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            output = function(*args, **kwargs)
            add(function.__name__, output, function)
            return output

        return call

    with ExitStack() as stack:
        for owner, name in functions:
            stack.enter_context(patch.object(owner, name, recording(getattr(owner, name))))
        for path, module in network.named_modules():
            if type(module).__module__.startswith("convs2s."):

                def hook(module: nn.Module, _: Any, output: Any, path: str = path) -> None:
                    add(path, output, type(module))

                stack.callback(module.register_forward_hook(hook).remove)
        yield calls


def defined_in(definition: Any, network: Network) -> str:
    """The file of a class or function, beside that of the network or in the package."""
    file, home = (Path(inspect.getfile(each)) for each in (definition, type(network)))
    return file.relative_to(home.parent if home.parent in file.parents else PACKAGE).as_posix()


class Training(NamedTuple):
    """A training pass, from tokens to loss.

    Attributes:
        network: the network.
        batch: its input.
        calls: the calls in it, that of the loss last.
        encoded: the shapes of the encoder's output.
        sizes: what the sizes are called.
    """

    network: Network
    batch: Batch
    calls: list[Call]
    encoded: dict[str, tuple[int, ...]]
    sizes: dict[str, int]


def training(family: str) -> Training:
    """Record a training pass of a family's small network."""
    data, network = batch(), build(family).train()
    inside = [(densenet_training, "causal_conv2d"), (FeatureBuffer, "read"), (Grid, "pack")]
    with recorded(network, inside) as calls:
        encoded = network.encode(data.source)
        features, _ = network.decode(data.previous, encoded)
    # As the criterion does: padding has no loss.
    real = data.target.ne(data.vocabularies.pad)
    inputs, target = features[real], data.target[real]
    weight, bias = network.output.weight_and_bias(None)
    loss = linear_cross_entropy(inputs, weight, bias, target).loss
    file = defined_in(linear_cross_entropy, network)
    calls += [
        Call("inputs", tuple(inputs.shape), "in the criterion"),
        Call("loss", tuple(loss.shape), file),
    ]
    (sentences, source_len), target_len = data.source.shape, data.target.size(1)
    sizes = {"B": sentences, "S": source_len, "T": target_len, "N": len(target)}
    shapes = {name: tuple(x.shape) for name, x in encoded.items() if isinstance(x, Tensor)}
    return Training(network, data, calls, shapes, sizes | FAMILIES[family].sizes)


class Kept(NamedTuple):
    """A tensor that a search keeps between its steps.

    Attributes:
        path: of the module of the decoder that keeps it, and its name there.
        shape: the shape of the part in use.
        is_reordered: whether it is copied when hypotheses change places in their sentences.
        is_written: whether the step changed it.
    """

    path: str
    shape: tuple[int, ...]
    is_reordered: bool
    is_written: bool


class Step(NamedTuple):
    """A step of beam search.

    Attributes:
        network: the network.
        calls: the calls in the step; those of the search last.
        kept: what is kept between steps, that of the encoder first.
        sizes: what the sizes are called.
    """

    network: Network
    calls: list[Call]
    kept: list[Kept]
    sizes: dict[str, int]


@torch.no_grad()
def step(family: str) -> Step:
    """Record step ``STEPS`` of a search with a family's small network."""
    data, network = batch(), build(family)
    encoded, state = network.encode(data.source), State()
    sentences, source_len = data.source.shape
    rows = sentences * BEAM
    order = torch.arange(sentences).repeat_interleave(BEAM)
    prefix, totals = torch.full((rows, 1), data.vocabularies.eos), None
    for _ in range(STEPS):
        beam_order = BeamOrder(order, encoded["beam_size"])
        before = _kept(network, encoded, state)
        state.reorder_(order, beam_order)
        encoded = reorder_encoder_output(encoded, beam_order)
        moved = _kept(network, encoded, state)
        contents = {name: used.clone() for name, (_, used) in moved.items()}
        with recorded(network, [(Grid, "pack")]) as calls:
            features, _ = network.decode(prefix, encoded, state)
            logits = network.logits(features)[:, -1]
        best = best_continuations(logits.log_softmax(dim=-1), totals, BEAM)
        totals = best.scores[:, :BEAM].flatten()
        order = (torch.arange(0, rows, BEAM).unsqueeze(1) + best.beams[:, :BEAM]).flatten()
        given, prefix = prefix, torch.cat([prefix[order], best.tokens[:, :BEAM].reshape(-1, 1)], 1)
    kept = [
        Kept(
            name,
            tuple(used.shape),
            moved[name][0] is not before[name][0],
            not torch.equal(used, contents[name]),
        )
        for name, (_, used) in _kept(network, encoded, state).items()
    ]
    file = defined_in(best_continuations, network)
    calls += [Call("prefix", tuple(given.shape), file), Call("order", tuple(order.shape), file)]
    sizes = {"B": sentences, "R": rows, "t": STEPS, "S": source_len, "V": data.vocabularies.target}
    of_family = FAMILIES[family].in_search or FAMILIES[family].sizes
    return Step(network, calls, kept, sizes | {"(b t)": BEAM * STEPS} | of_family)


def _kept(
    network: Network, encoded: dict[str, Any], state: State
) -> dict[str, tuple[Tensor | None, Tensor]]:
    """The tensors of an encoder output and of a state, and the parts of them that are in use."""
    found: dict[str, tuple[Tensor | None, Tensor]] = {
        name: (x, x) for name, x in encoded.items() if isinstance(x, Tensor)
    }
    # States of layers in ADL have numbers for names.
    modules = network.decoder.named_modules()
    paths = {getattr(module, "state_number", path): path for path, module in modules}

    def visit(part: State, path: str) -> None:
        for name, x in (part.rows | part.sentences).items():
            found[f"{path}{name}"] = x, x
        if (cache := part.filled_cache()) is not None:
            keys, values = cache.contents()
            found[f"{path}keys"], found[f"{path}values"] = (
                (cache.keys, keys),
                (cache.values, values),
            )
        if part.backpointers is not None and (writers := part.backpointers.writers) is not None:
            found["backpointers"] = writers, writers
        for name, inner in part.children.items():
            visit(inner, f"{path}{paths.get(name, name)}.")

    visit(state, "")
    return found


def letters(shape: Sequence[int], sizes: dict[str, int]) -> str:
    """A shape in the notation of the code, such as "B × T × C".

    Args:
        shape: the numbers.
        sizes: the size of each letter, all different; 1 stays a number.
    """
    names = {size: name for name, size in sizes.items()}
    assert len(names) == len(sizes) and 1 not in names, f"two of {sizes} are equal"
    return times("1" if size == 1 else names[size] for size in shape)


def times(factors: Iterable[object]) -> str:
    """A shape as text."""
    return " × ".join(map(str, factors))
