"""Generation: unknown words, diverse and constrained search, and the lines of a text."""

import math
import sys
from argparse import Namespace
from collections.abc import Iterator
from inspect import unwrap
from typing import IO, Any

import torch
from fairseq import utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.search import DiverseBeamSearch, LexicallyConstrainedBeamSearch
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import FairseqTask
from fairseq.token_generation_constraints import OrderedConstraintState, UnorderedConstraintState
from torch import Tensor

from convs2s.common.errors import UserError
from convs2s.common.text_files import decode_lines

from .commands import TASK
from .patches import Tier, patched

# Values of --replace-unk without a file: from the command line, and from Python.
REPLACE_UNK_WITHOUT_FILE = ("@@ ", "", True)
# Options of fairseq-generate that need the translations of the data.
NEED_TARGETS = ("score_reference", "prefix_size")
# Those of models that refine a translation again and again.
OF_ITERATIONS = ("retain_iter_history", "print_step")
# The smallest values of numbers.
LEAST = {"beam": 1, "nbest": 1, "prefix_size": 0}
CONSTRAINT_STATES = {"ordered": OrderedConstraintState, "unordered": UnorderedConstraintState}


@patched(utils, "load_align_dict", Tier.TASK)
def load_align_dict(original: Any, replace_unk: str | None) -> None:
    """Keep fairseq's commands from replacing unknown words after the task has replaced them.

    Their replacement needs alignments, which are not computed without ``--print-alignment``, and
    raw source text, which binarized data does not have.
    """


@patched("fairseq_cli.generate", "main", Tier.NEEDED)
def generate(original: Any, cfg: Any) -> Any:
    """Let ``fairseq-generate --replace-unk`` translate binarized data with this package's task.

    fairseq's command refuses it before the task exists, because its own replacement needs raw text.
    """
    if isinstance(cfg, Namespace):
        cfg = convert_namespace_to_omegaconf(cfg)
    replace_unk = cfg.generation.replace_unk
    if replace_unk is None or getattr(cfg.task, "_name", None) != TASK:
        return original(cfg)
    module = unwrap(original).__globals__
    translate = module["_main"]

    def translate_with_option(cfg: Any, *arguments: Any) -> Any:
        cfg.generation.replace_unk = replace_unk
        return translate(cfg, *arguments)

    cfg.generation.replace_unk = None
    module["_main"] = translate_with_option
    try:
        return original(cfg)
    finally:
        module["_main"] = translate


@patched(FairseqTask, "build_generator", Tier.EXTRA)
def build_generator(
    original: Any, self: FairseqTask, models: Any, args: Any, *more: Any, **options: Any
) -> Any:
    """Refuse options that need translations if the data have none, and impossible ones."""
    check_options(self, args)
    return original(self, models, args, *more, **options)


def check_options(task: FairseqTask, args: Any) -> None:
    """Check options of generation that do not depend on the search.

    Raises:
        UserError: if the data of the task have no translations, but an option needs them, or if an
            option is out of range or for other models.
    """
    for name, least in LEAST.items():
        if getattr(args, name, least) < least:
            raise UserError(
                f"{_option(name)} is {getattr(args, name)}, but must be at least {least}."
            )
    for name in OF_ITERATIONS:
        if getattr(args, name, False):
            raise UserError(
                f"{_option(name)} is for models that refine their translations in iterations "
                "(--task translation_lev), not for these: omit it."
            )
    needed = [name for name in NEED_TARGETS if getattr(args, name, None)]
    if not needed:
        return
    for split, dataset in task.datasets.items():
        if getattr(dataset, "tgt", dataset) is None:
            raise UserError(
                f"{_option(needed[0])} needs translations, but the data set {split} has none: "
                "binarize it with both languages, without --only-source, or omit the option."
            )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@patched(SequenceGenerator, "_generate", Tier.EXTRA)
def _generate(
    original: Any,
    self: SequenceGenerator,
    sample: dict[str, Any],
    prefix_tokens: Tensor | None = None,
    constraints: Tensor | None = None,
    bos_token: int | None = None,
) -> Any:
    """Search with ``--diverse-beam-groups`` in more than one batch, and with ``--constraints``.

    The diverse search keeps one row for each sentence of the batch, but looks them up by "id", the
    number of the sentence in the data set. Hypotheses that ``step`` lets end without all
    constraints come last.
    """
    if isinstance(self.search, DiverseBeamSearch) and torch.is_tensor(sample.get("id")):
        ids = torch.arange(len(sample["id"]), device=sample["id"].device)
        sample = {**sample, "id": ids}
    found = original(self, sample, prefix_tokens, constraints, bos_token)
    if constraints is None:
        return found
    state = CONSTRAINT_STATES[self.search.representation]
    return [
        sorted(hypotheses, key=lambda each: not _has_all(state.create(packed), each))
        for packed, hypotheses in zip(constraints.cpu(), found)
    ]


def _has_all(state: Any, hypothesis: dict[str, Any]) -> bool:
    """Whether a hypothesis has all the constraints of the initial state."""
    for token in hypothesis["tokens"][:-1].tolist():
        state = state.advance(token)
    return state.finished


@patched(LexicallyConstrainedBeamSearch, "init_constraints", Tier.EXTRA)
def init_constraints(
    original: Any,
    self: LexicallyConstrainedBeamSearch,
    batch_constraints: Tensor | None,
    beam_size: int,
) -> None:
    """Refuse data without constraints."""
    if batch_constraints is None:
        raise UserError(
            "--constraints needs the words that each translation must have, but these data "
            "have none: use fairseq-interactive, with lines SOURCE<tab>WORDS<tab>WORDS."
        )
    original(self, batch_constraints, beam_size)


@patched(LexicallyConstrainedBeamSearch, "step", Tier.EXTRA)
def step(
    original: Any,
    self: LexicallyConstrainedBeamSearch,
    step: int,
    lprobs: Tensor,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Let hypotheses of maximum length end without all constraints, where fairseq fails."""
    must_end = bool(lprobs[:, :, self.eos + 1 :].max() == -math.inf)
    if not must_end:
        return original(self, step, lprobs, *args, **kwargs)
    states, self.constraint_states = self.constraint_states, []
    try:
        return original(self, step, lprobs, *args, **kwargs)
    finally:
        self.constraint_states = states


@patched(
    TransformerEncoderLayerBase,
    "_load_from_state_dict",
    Tier.EXTRA,
    when="_transformer_encoder_layer_fwd" in TransformerEncoderLayerBase.forward.__code__.co_names,
)
def _load_from_state_dict(original: Any, self: Any, *arguments: Any, **options: Any) -> None:
    """Let fairseq's Transformer encoders compute as in training.

    fairseq 0.12.2 gives torch's fused encoder layer the mask of padding, but not its kind, which
    torch has required since version 2: every batch with padding fails, unless the encoder has
    --encoder-normalize-before. Later versions of fairseq do not use that layer.
    """
    original(self, *arguments, **options)
    self.load_to_BT = False


@patched("fairseq_cli.interactive", "make_batches", Tier.EXTRA)
def make_batches(
    original: Any, lines: list[str], cfg: Any, task: Any, *arguments: Any
) -> Iterator[Any]:
    """Let fairseq-interactive release the lines that it has translated.

    fairseq keeps the batches of every dataset for another epoch, a few kilobytes for each line.

    Raises:
        UserError: if an option needs translations, of which there are none.
    """
    for name in NEED_TARGETS:
        if getattr(cfg.generation, name, None):
            raise UserError(
                f"{_option(name)} needs translations, but fairseq-interactive reads only sources: "
                "use fairseq-generate, or omit the option."
            )
    before = set(task.dataset_to_epoch_iter)
    yield from original(lines, cfg, task, *arguments)
    for dataset in set(task.dataset_to_epoch_iter) - before:
        del task.dataset_to_epoch_iter[dataset]


@patched("fairseq_cli.interactive", "buffered_read", Tier.EXTRA)
def buffered_read(original: Any, input: str, buffer_size: int) -> Iterator[list[str]]:
    """Let fairseq-interactive end lines only at line feeds, and name a line that is not UTF-8.

    fairseq also ends a line at a carriage return, so there are more outputs than lines. At
    invalid UTF-8, it drops the lines of the buffer; here they are translated first.

    Args:
        original: fairseq's function, not used.
        input: a text file in UTF-8, or - for standard input.
        buffer_size: the number of lines in a list; the last one may have fewer.
    Raises:
        UserError: if there is no such file, or it is not UTF-8, after the lines before were
            yielded.
    """
    standard = input == "-"
    errors = (sys.stdin.errors if standard else None) or "strict"
    with _opened(input) as file:
        lines = decode_lines(file, "the input" if standard else input, errors)
        buffer: list[str] = []
        while True:
            try:
                line = next(lines, None)
            except ValueError:
                if buffer:
                    yield buffer
                raise
            if line is not None:
                buffer.append(line.strip())
            if buffer and (line is None or len(buffer) >= buffer_size):
                yield buffer
                buffer = []
            if line is None:
                return


def _opened(input: str) -> IO[bytes]:
    """A file, or standard input, opened for reading.

    Raises:
        UserError: if it cannot be opened.
    """
    if input == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    try:
        return open(input, "rb")
    except FileNotFoundError as error:
        raise UserError(f"There is no file {input} (--input).") from error
    except OSError as error:
        raise UserError(f"{input} cannot be read (--input): {error.strerror or error}.") from error
