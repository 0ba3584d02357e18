"""Models of fairseq, and of packages of its users, for the library's search."""

import re

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig, GenerationConfig

from convs2s.checkpoints.networks import Checkpoint
from convs2s.common.errors import UserError
from convs2s.translation.loading import Dictionaries, Loaded

from .compat.checkpoints import without_hydra_warnings
from .compat.messages import is_unknown_model
from .search.decoding import FairseqModel
from .tasks.translation import ConvS2STranslationConfig, ConvS2STranslationTask

# The options of fairseq's translation task that a model depends on.
OF_THE_MODEL = (
    "source_lang",
    "target_lang",
    "left_pad_source",
    "left_pad_target",
    "max_source_positions",
    "max_target_positions",
)
# What fairseq's fconv finds in checkpoints that it wrote in 2017.
OLD_FCONV = re.compile(r"decoder\.convolutions\.\d+\.(weight_g|_linearized_weight)\b")


def setup_task(checkpoint: Checkpoint, dictionaries: Dictionaries) -> ConvS2STranslationTask:
    """The task ``convs2s_translation`` with the dictionaries of a model.

    Raises:
        UserError: if an option has a value that is not allowed.
    """
    given = {key: checkpoint.task[key] for key in OF_THE_MODEL if key in checkpoint.task}
    languages = {"source_lang": dictionaries.source, "target_lang": dictionaries.target}
    cfg = ConvS2STranslationConfig(**{**given, "data": str(dictionaries.folder), **languages})
    return ConvS2STranslationTask.setup_task(cfg)


def load(checkpoint: Checkpoint, dictionaries: Dictionaries, device: torch.device) -> Loaded:
    """Make the model of a checkpoint, ready for generation.

    Raises:
        UserError: if the weights do not fit the dictionaries, or the architecture is unknown.
    """
    task = setup_task(checkpoint, dictionaries)
    try:
        with without_hydra_warnings():
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
            f"{checkpoint.path} was trained with other dictionaries than those in "
            f"{task.cfg.data}: give its own with --data."
        ) from error
    if not hasattr(model, "encoder") or not hasattr(model, "decoder"):
        raise UserError(f"{checkpoint.path} is not a model of translation: it has no decoder.")
    model.to(device)
    model.prepare_for_inference_(FairseqConfig(generation=GenerationConfig(beam=1)))
    return Loaded(model, FairseqModel(model))
