"""Models of fairseq, and of its users' packages, for the library's search."""

import re
import threading
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from fairseq import checkpoint_utils, options
from fairseq.data import Dictionary
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from torch import nn

from convs2s.checkpoints.networks import OF_THE_MODEL, Checkpoint
from convs2s.common.errors import UserError, nearest
from convs2s.translation.decoding import Model
from convs2s.translation.loading import Dictionaries, check_words

from . import compat
from .compat.checkpoints import memory_mapped, without_hydra_warnings
from .compat.messages import is_unknown_model
from .search.decoding import search_model
from .tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask

# fairseq reads options with hydra, which has one state for all threads.
_loading = threading.Lock()
# What fairseq's fconv finds in checkpoints that it wrote in 2017.
OLD_FCONV = re.compile(r"decoder\.convolutions\.\d+\.(weight_g|_linearized_weight)\b")


def setup_task(
    checkpoint: Checkpoint, dictionaries: Dictionaries, **more: Any
) -> ConvS2STranslationTask:
    """The task ``convs2s_translation`` with the dictionaries of a model.

    Args:
        checkpoint: the model.
        dictionaries: its dictionaries.
        more: other options of the task.
    Raises:
        UserError: if an option has a value that is not allowed.
    """
    given = {key: checkpoint.task[key] for key in OF_THE_MODEL if key in checkpoint.task}
    languages = {"source_lang": dictionaries.source, "target_lang": dictionaries.target}
    given |= {"data": str(dictionaries.folder), **languages, **more}
    cfg = ConvS2STranslationConfig(**given)
    return ConvS2STranslationTask.setup_task(cfg)


def load(checkpoint: Checkpoint, dictionaries: Dictionaries, device: torch.device) -> Model:
    """Build the model of a checkpoint, ready for generation; see ``convs2s.translation.loading``.

    Models of this package are also models of fairseq.

    Raises:
        UserError: if the weights do not fit the dictionaries, or the architecture is unknown.
    """
    compat.enable_all()
    check_words(checkpoint, dictionaries)
    task = setup_task(checkpoint, dictionaries)
    try:
        with _loading, memory_mapped(), without_hydra_warnings():
            (model,), _ = checkpoint_utils.load_model_ensemble([checkpoint.path], task=task)
    except (AssertionError, LookupError) as error:
        if not is_unknown_model(error):
            raise
        raise UserError(
            f"{checkpoint.path} has a model that is unknown here: give the package that defines "
            "it with --user-dir."
        ) from error
    except RuntimeError as error:
        if "size mismatch" not in str(error) and "Error(s) in loading" not in str(error):
            raise
        if OLD_FCONV.search(str(error)):
            raise UserError(
                f"{checkpoint.path} is a checkpoint of an old version of fairseq's fconv, which "
                "fairseq no longer loads: convert it with `convs2s convert-fconv`."
            ) from error
        raise UserError(
            f"{checkpoint.path} was trained with dictionaries other than those in {task.cfg.data}: "
            "give its own with --data."
        ) from error
    if not hasattr(model, "encoder") or not hasattr(model, "decoder"):
        raise UserError(f"{checkpoint.path} is not a translation model: it has no decoder.")
    model.to(device)
    model.prepare_for_inference_(FairseqConfig(generation=GenerationConfig(beam=1)))
    return search_model(model)


class _Logits(nn.Module):
    """A model of fairseq as a function of source and previous target tokens."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Logits B x T x V."""
        lengths = torch.full((len(source),), source.size(1))
        return self.model(src_tokens=source, src_lengths=lengths, prev_output_tokens=target)[0]


def build_architecture(arch: str, changes: Sequence[str], sizes: tuple[int, int]) -> nn.Module:
    """Build a model of fairseq with random weights, in training mode.

    Args:
        arch: one of fairseq's architectures.
        changes: options of fairseq-train that differ from it.
        sizes: sizes of the source and the target vocabulary.
    Raises:
        UserError: if the architecture or an option is unknown.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        similar = nearest(arch, ARCH_MODEL_REGISTRY)
        raise UserError(
            f"There is no architecture {arch}{similar}; `fairseq-train --help` lists all."
        )
    parser = options.get_training_parser()
    parser.error = _refuse
    given = ["data", "--arch", arch, "--task", "translation", *changes]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, input_args=given))
    source, target = map(dictionary_of_size, sizes)
    task = Namespace(cfg=cfg.task, source_dictionary=source, target_dictionary=target)
    return _Logits(build_model(cfg.model, task))


def _refuse(message: str) -> NoReturn:
    # Without the names of all architectures or optimizers.
    reason = message.partition(" (choose from")[0]
    raise UserError(f"The options are not those of fairseq-train: {reason}.")


def dictionary_of_size(size: int) -> Dictionary:
    """A dictionary of ``size`` tokens, fairseq's special symbols among them."""
    dictionary = Dictionary()
    for i in range(size - len(dictionary)):
        dictionary.add_symbol(str(i))
    return dictionary
