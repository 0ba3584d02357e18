"""Checkpoints of fairseq's transformer from checkpoints of models in ADL."""

from argparse import Namespace
from collections import OrderedDict
from typing import Any, cast

from ...common.errors import UserError
from ...models.adl.language.spec import Settings
from ...models.adl.options import AdlOptions
from ..files import check_not_quantized, new_training
from ..networks import Checkpoint, check_left_to_right, network_options
from .transformer_shape import Target, TransformerShape, transformer_shape
from .transformer_weights import convert_weights, has_output_bias

Options = dict[str, Any]

FAIRSEQ = Target(
    "fairseq's transformer",
    "the export",
    {"relu": "relu", "gelu": "gelu", "swish": "swish", "tanh": "tanh", "none": "linear"},
)
# The options of neither model, task nor criterion that stay.
KEPT = ("common", "dataset", "generation", "tokenizer", "bpe")
# The options of fairseq's own task translation.
OF_THE_TASK = (
    "data source_lang target_lang load_alignments left_pad_source left_pad_target "
    "max_source_positions max_target_positions upsample_primary truncate_source "
    "num_batch_buckets train_subset dataset_impl required_seq_len_multiple eval_bleu "
    "eval_bleu_args eval_bleu_detok eval_bleu_detok_args eval_tokenized_bleu "
    "eval_bleu_remove_bpe eval_bleu_print_samples"
).split()


def export_transformer(checkpoint: Checkpoint) -> dict[str, Any]:
    """Convert a checkpoint of a model in ADL to one of fairseq's transformer.

    The state of the optimizer is dropped.

    Args:
        checkpoint: a checkpoint of this package.
    Returns:
        A checkpoint of plain data, which fairseq loads without this package.
    Raises:
        TextError: if a layer is not one of fairseq's transformer; the error shows its place.
        UserError: if the model is not one in ADL, has input feeding, or has the option
            ``right_to_left``.
    """
    if checkpoint.family != "adl":
        raise UserError(
            f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, but only models "
            "in ADL with the layers of a transformer, such as adl_transformer, can be exported to "
            "fairseq's transformer."
        )
    check_left_to_right(checkpoint, "fairseq's transformer")
    options = cast(AdlOptions, network_options(checkpoint))
    spec = options.resolve()
    shape = transformer_shape(spec, FAIRSEQ)
    weights = checkpoint.weights
    check_not_quantized(checkpoint.path, weights, "exported")
    shared, tied = options.share_all_embeddings, options.share_input_output_embed
    if has_output_bias(weights):
        shared = tied = False
    task = {name: value for name, value in checkpoint.task.items() if name in OF_THE_TASK}
    # Those of older checkpoints are Namespaces.
    cfg = {
        name: vars(part) if isinstance(part, Namespace) else part
        for name, part in checkpoint.state["cfg"].items()
    }
    kept = {name: cfg[name] for name in KEPT if cfg.get(name) is not None}
    if "common" in kept:
        kept["common"]["user_dir"] = None
    smoothing = (cfg.get("criterion") or {}).get("label_smoothing") or 0.0
    model = {
        **task,
        **_transformer_options(shape, spec.settings),
        "share_all_embeddings": shared,
        "share_decoder_input_output_embed": shared or tied,
    }
    return {
        "args": None,
        "cfg": {
            **kept,
            "task": {"_name": "translation", **task},
            "model": _readable_as_namespace(model),
            "criterion": {"_name": "label_smoothed_cross_entropy", "label_smoothing": smoothing},
        },
        "model": convert_weights(weights, shape, shared or tied),
        **new_training(checkpoint.state["optimizer_history"][-1]["num_updates"]),
        "last_optimizer_state": None,
    }


def _transformer_options(shape: TransformerShape, settings: Settings) -> Options:
    """The options of fairseq's transformer, apart from shared embeddings."""
    dropout = settings.dropout
    attention_dropout = settings.attention_dropout
    options = {
        "_name": "transformer",
        "arch": "transformer",
        "task": "translation",
        "activation_fn": FAIRSEQ.activations[shape.encoder.activation],
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
    """A dictionary whose items are also attributes.

    ``torch.load(..., weights_only=True)`` loads it, unlike ``argparse.Namespace``. fairseq
    and the converter of CTranslate2 read options as attributes.
    """
    found = OrderedDict(options)
    vars(found).update(options)
    return found
