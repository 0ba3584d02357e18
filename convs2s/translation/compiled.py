"""Networks whose encoder and steps ONNX Runtime computes on a CPU.

``convs2s compile`` writes their graphs beside the checkpoint. Torch computes the output layer,
which a shortlist may restrict, and everything that is not a search.
"""

import hashlib
import os
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..checkpoints.folders import ENCODER_GRAPH, STEP_GRAPH
from ..common.errors import UserError
from ..models.interface import EOS
from ..nn.linear import linear
from ..nn.state import BeamOrder
from .decoding import Decoding, Forced, Model, NetworkModel, log_softmax

# The digest of the weights in the graphs, in a file beside them.
DIGEST = "weights.sha256"
# Starting ONNX Runtime takes as long as it saves in this many sentences, one at a time.
WORTH_IT = 10
# The bytes of a graph from which several threads compute it faster than one, with few sentences.
LARGE_GRAPH = 2**26
# The largest difference from torch, as a fraction of the largest number.
TOLERANCE = 1e-3


def folder_of(checkpoint: str) -> Path:
    """The folder with the graphs of a checkpoint, which may not exist."""
    return Path(checkpoint).with_suffix(".onnx")


def has_graphs(checkpoint: str) -> bool:
    """Whether there are graphs of a checkpoint, and ONNX Runtime to compute them."""
    return folder_of(checkpoint).is_dir() and find_spec("onnxruntime") is not None


def digest_of(network: nn.Module) -> str:
    """A digest of all weights of a network that is ready for generation."""
    found = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def with_graphs(model: Model, checkpoint: str) -> Model:
    """The same model, which ONNX Runtime computes if there are graphs for it.

    Args:
        model: the model, on a CPU and in single precision.
        checkpoint: its checkpoint.
    Raises:
        UserError: if the graphs have other weights.
    """
    if type(model) is not NetworkModel or not has_graphs(checkpoint):
        return model
    folder = folder_of(checkpoint)
    try:
        digest = (folder / DIGEST).read_text(encoding="utf-8")
    except OSError:
        digest = ""
    if digest.strip() != digest_of(model.module):
        raise UserError(
            f"The graphs in {folder} are not those of {checkpoint}: write them again with `convs2s "
            f"compile {checkpoint}`, or remove {folder}."
        )
    return CompiledModel(model.module, folder)


@torch.no_grad()
def check_graphs(network: Any, folder: Path) -> None:
    """Check that ONNX Runtime computes what torch computes, with random sentences.

    Args:
        network: the network.
        folder: the folder of its graphs.
    Raises:
        UserError: if it does not.
    """
    words = network.encoder.embed.words.num_embeddings
    source = torch.randint(words, (2, 9), generator=torch.Generator().manual_seed(1))
    source[source == network.encoder.pad] = EOS
    model, graphs = NetworkModel(network), CompiledModel(network, folder).graphs()
    expected, found = model.start(model.encode(source)), CompiledDecoding(network, graphs, source)
    order = torch.arange(len(source)).repeat_interleave(3)
    prefix = source.new_full((len(order), 1), EOS)
    for _ in range(4):
        logits = []
        for decoding in (expected, found):
            decoding.reorder_(order)
            logits.append(decoding.logits(decoding.step(prefix)[0]))
        largest = float(logits[0].abs().max())
        difference = float((logits[0] - logits[1]).abs().max())
        if not difference <= TOLERANCE * max(largest, 1.0):
            raise UserError(
                "ONNX Runtime does not compute what torch computes for this model: logits of up "
                f"to {largest:.3g} differ by {difference:.3g}. Translate without `convs2s compile`."
            )
        tokens = logits[0].topk(3).indices[torch.arange(len(order)), torch.arange(len(order)) % 3]
        prefix = torch.cat([prefix, tokens.unsqueeze(1)], dim=1)
        order = torch.arange(len(order))


class Graphs(NamedTuple):
    """Both graphs in ONNX Runtime.

    Attributes:
        process: the process in which they can be used, whose threads they have.
        encoder, step: the sessions.
        outputs: names of the outputs of the encoder.
        sources, states: names of the inputs of the step.
    """

    process: int
    encoder: Any
    step: Any
    outputs: list[str]
    sources: list[str]
    states: list[str]


def _session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    is_large = path.is_file() and path.stat().st_size >= LARGE_GRAPH
    options.intra_op_num_threads = torch.get_num_threads() if is_large else 1
    options.inter_op_num_threads = 1
    # Threads that wait by spinning slow down those of torch.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Errors only.
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    except Exception as error:
        raise UserError(
            f"{path} cannot be used: {str(error).splitlines()[0]}. Write it again with `convs2s "
            "compile`."
        ) from error


class CompiledModel(NetworkModel):
    """A network whose encoder and steps ONNX Runtime computes, after the first sentences.

    Args:
        network: the network, on a CPU and in single precision.
        folder: the folder of its graphs.
        worth_it: number of sentences that torch translates first (WORTH_IT).
    """

    def __init__(self, network: Any, folder: Path, worth_it: int = WORTH_IT):
        super().__init__(network)
        self._folder = folder
        self._missing = worth_it
        self._graphs: Graphs | None = None
        self._lock = threading.Lock()

    def encode(self, source: Tensor) -> Any:
        """Return B x S source tokens, which are encoded where the encoder output is needed."""
        return source

    def start(
        self, encoded: Any, need_weights: bool = False, shortlist: Tensor | None = None
    ) -> Decoding:
        """Start to decode a batch; see ``Model``."""
        self._missing -= encoded.size(0)
        # Torch refuses what is too long in a sentence.
        is_short = encoded.size(1) <= self.max_source_length
        # ``.cuda()`` may have moved the network since.
        is_on_cpu = encoded.device.type == "cpu"
        if need_weights or self._missing > 0 or not is_short or not is_on_cpu:
            return super().start(super().encode(encoded), need_weights, shortlist)
        return CompiledDecoding(self.module, self.graphs(), encoded, shortlist)

    def attend(
        self, encoded: Any, sentences: Tensor, previous: Tensor, target: Tensor
    ) -> Tensor | None:
        """The attention of given translations; see ``Model``."""
        return super().attend(super().encode(encoded), sentences, previous, target)

    def score(
        self, encoded: Any, previous: Tensor, target: Tensor, need_weights: bool = False
    ) -> Forced:
        """Score one translation of each sentence; see ``Model``."""
        return super().score(super().encode(encoded), previous, target, need_weights)

    def graphs(self) -> Graphs:
        """The graphs in this process."""
        with self._lock:
            if self._graphs is None or self._graphs.process != os.getpid():
                encoder, step = (
                    _session(self._folder / name) for name in (ENCODER_GRAPH, STEP_GRAPH)
                )
                inputs = [each.name for each in step.get_inputs()]
                self._graphs = Graphs(
                    os.getpid(),
                    encoder,
                    step,
                    [each.name for each in encoder.get_outputs()],
                    [name for name in inputs if name.startswith("source")],
                    [name for name in inputs if name.startswith("state")],
                )
            return self._graphs


class CompiledDecoding:
    """A network that decodes one batch in ONNX Runtime; see ``Decoding``.

    Args:
        network: the network, which has the output layer.
        graphs: its encoder and step.
        source: B x S tokens.
        shortlist: as for ``NetworkModel``.
    """

    by_row = True

    def __init__(
        self, network: Any, graphs: Graphs, source: Tensor, shortlist: Tensor | None = None
    ):
        self._graphs, self._shortlist = graphs, shortlist
        self._output = network.output.weight_and_bias(shortlist)
        found = graphs.encoder.run(graphs.outputs, {"src_tokens": source.numpy()})
        tensors = dict(zip(graphs.outputs, map(torch.from_numpy, found)))
        # The features of the first step; None when they have been used.
        self._first: Tensor | None = tensors["features"]
        self._source = [tensors[name] for name in graphs.sources]
        self._state = [tensors[name] for name in graphs.states]
        self._beam_size = 1

    def step(self, prefix: Tensor) -> tuple[Tensor, None]:
        """Compute the features of the next tokens; see ``Decoding``."""
        if self._first is not None:
            features, self._first = self._first, None
        else:
            if self._shortlist is not None:
                prefix = self._shortlist[prefix]
            graphs = self._graphs
            names = ("prefix", *graphs.sources, *graphs.states)
            tensors = (prefix, *self._source, *self._state)
            inputs = dict(zip(names, (tensor.numpy() for tensor in tensors)))
            features, *self._state = map(torch.from_numpy, graphs.step.run(None, inputs))
        return features, None

    def logits(self, features: Tensor) -> Tensor:
        """Logits of features; see ``Decoding``."""
        return linear(features, *self._output)

    def log_probs(self, logits: Tensor) -> Tensor:
        """Log-probabilities of logits."""
        return log_softmax(logits)

    def reorder_(self, order: Tensor, beam_order: BeamOrder | None = None) -> None:
        """Let hypothesis i continue hypothesis ``order[i]``; see ``Decoding``."""
        beam_order = beam_order or BeamOrder(order, self._beam_size)
        self._beam_size = beam_order.new_beam_size
        self._source = [beam_order.select(each) for each in self._source]
        self._state = [each.index_select(0, order) for each in self._state]
        if self._first is not None:
            self._first = self._first.index_select(0, order)
