"""Checkpoints of fairseq's transformer from checkpoints of models in ADL."""

from argparse import Namespace
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ...common.errors import UserError
from ...models import FAMILIES
from ...models.adl.language.spec import Settings
from ...models.adl.options import AdlOptions
from ...models.options import read_options
from ..files import check_not_quantized
from ..networks import Checkpoint
from .transformer_shape import ACTIVATIONS, TransformerShape, transformer_shape
from .transformer_weights import convert_weights, has_output_bias

Options = dict[str, Any]

POSITIONS = ("max_source_positions", "max_target_positions")
# The options of fairseq's own task translation.
OF_THE_TASK = (
    "data",
    "source_lang",
    "target_lang",
    "load_alignments",
    "left_pad_source",
    "left_pad_target",
    "max_source_positions",
    "max_target_positions",
    "upsample_primary",
    "truncate_source",
    "num_batch_buckets",
    "train_subset",
    "dataset_impl",
    "required_seq_len_multiple",
    "eval_bleu",
    "eval_bleu_args",
    "eval_bleu_detok",
    "eval_bleu_detok_args",
    "eval_tokenized_bleu",
    "eval_bleu_remove_bpe",
    "eval_bleu_print_samples",
)


def export_transformer(checkpoint: Checkpoint) -> dict[str, Any]:
    """Convert a checkpoint of a model in ADL to one of fairseq's transformer.

    The state of the optimizer is dropped.

    Args:
        checkpoint: a checkpoint of this package.
    Returns:
        A checkpoint of plain data, which fairseq loads without this package.
    Raises:
        TextError: if a layer is not one of fairseq's transformer; the error shows its place.
        UserError: if the model is not one in ADL, or has input feeding.
    """
    cfg = _model_options(checkpoint)
    spec = cfg.resolve()
    shape = transformer_shape(spec)
    weights = checkpoint.weights
    check_not_quantized(checkpoint.path, weights, "exported")
    shared, tied = cfg.share_all_embeddings, cfg.share_input_output_embed
    if has_output_bias(weights):
        shared = tied = False
    task = _task_options(checkpoint)
    model = {
        **task,
        **_transformer_options(shape, spec.settings),
        "share_all_embeddings": shared,
        "share_decoder_input_output_embed": shared or tied,
    }
    return {
        "args": None,
        "cfg": {
            **_remaining_options(checkpoint.state["cfg"]),
            "task": {"_name": "translation", **task},
            "model": _readable_as_namespace(model),
            "criterion": _criterion(checkpoint.state["cfg"]),
        },
        "model": convert_weights(weights, shape, shared or tied),
        "optimizer_history": [
            {
                "criterion_name": "",
                "optimizer_name": "",
                "lr_scheduler_state": {},
                "num_updates": checkpoint.state["optimizer_history"][-1]["num_updates"],
            }
        ],
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}},
        "last_optimizer_state": None,
    }


def _model_options(checkpoint: Checkpoint) -> AdlOptions:
    """The options of a model in ADL.

    Raises:
        UserError: if the checkpoint has another model.
    """
    arch = checkpoint.architecture
    if checkpoint.family != "adl":
        raise UserError(
            f"{checkpoint.path} has a model of --arch {arch}, but only models in ADL with the "
            "layers of a transformer, such as adl_transformer, can be exported to fairseq's "
            "transformer."
        )
    positions = {name: checkpoint.task.get(name) for name in POSITIONS}
    architecture = FAMILIES["adl"].architectures().get(arch)
    defaults = architecture.options if architecture else {}
    return read_options(AdlOptions, {**positions, **defaults, **_resolved(checkpoint.model)})


def _resolved(options: Mapping[str, Any]) -> Options:
    """Options that are given, without interpolations, which are those of the task."""
    return {
        name: value
        for name, value in options.items()
        if value is not None and not (isinstance(value, str) and value.startswith("${"))
    }


def _task_options(checkpoint: Checkpoint) -> Options:
    """The options of fairseq's own task translation."""
    return {name: value for name, value in checkpoint.task.items() if name in OF_THE_TASK}


def _transformer_options(shape: TransformerShape, settings: Settings) -> Options:
    """The options of fairseq's transformer, apart from shared embeddings."""
    dropout = settings.dropout
    attention_dropout = settings.attention_dropout
    options = {
        "_name": "transformer",
        "arch": "transformer",
        "task": "translation",
        "activation_fn": ACTIVATIONS[shape.encoder.activation],
        "dropout": dropout,
        "attention_dropout": dropout if attention_dropout is None else attention_dropout,
        "activation_dropout": dropout,
        "no_scale_embedding": not shape.encoder.scales_embeddings,
        "max_source_positions": settings.max_source_positions,
        "max_target_positions": settings.max_target_positions,
    }
    for stack in (shape.encoder, shape.decoder):
        of_side = {
            "embed_dim": stack.width,
            "ffn_embed_dim": stack.ff_width,
            "layers": len(stack.blocks),
            "attention_heads": stack.heads,
            "normalize_before": stack.pre_norm,
            "learned_pos": True,
        }
        options.update({f"{stack.side}_{name}": value for name, value in of_side.items()})
    return options


def _readable_as_namespace(options: Options) -> "OrderedDict[str, Any]":
    """A dictionary that has its items as attributes, too.

    ``torch.load(..., weights_only=True)`` loads it, in contrast to ``argparse.Namespace``. fairseq
    and the converter of CTranslate2 read options as attributes.
    """
    found = OrderedDict(options)
    vars(found).update(options)
    return found


def _criterion(cfg: Mapping[str, Any]) -> Options:
    """A criterion of fairseq's in place of the one of the training."""
    smoothing = (_plain(cfg.get("criterion")) or {}).get("label_smoothing") or 0.0
    return {"_name": "label_smoothed_cross_entropy", "label_smoothing": smoothing}


def _remaining_options(cfg: Mapping[str, Any]) -> Options:
    """The options of neither model, task nor criterion, without those of this package."""
    kept = ("common", "dataset", "generation", "tokenizer", "bpe")
    found = {name: _plain(cfg[name]) for name in kept if cfg.get(name) is not None}
    if "common" in found:
        found["common"]["user_dir"] = None
    return found


def _plain(options: Any) -> Any:
    """Options as plain data."""
    if isinstance(options, Namespace):
        return vars(options)
    return options
