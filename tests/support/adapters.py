"""The small models of ``families`` under fairseq, with dictionaries and a task of fairseq."""

import inspect
from argparse import Namespace
from functools import partial
from unittest import mock

import torch
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from omegaconf import DictConfig, OmegaConf

import convs2s_plugin  # noqa: F401  (registers the architectures)
from tests.support.batches import WORDS
from tests.support.families import COMMON, FAMILIES, MODELS, NAMED, randomize_biases_


def dictionary(words=WORDS):
    """The words of ``vocabulary`` in fairseq's form."""
    symbols = Dictionary()
    for i in range(words):
        symbols.add_symbol(f"w{i}")
    return symbols


def translation_task(source=None, target=None):
    """The part of a translation task that is needed to build a model."""
    return Namespace(
        source_dictionary=source or dictionary(), target_dictionary=target or dictionary()
    )


def build(arch, task=None, seed=1, need_attn=True, **options):
    """A model of a registered architecture with random weights and biases, in evaluation mode.

    Args:
        arch: name of the architecture.
        task: see translation_task.
        seed: of the weights.
        need_attn: whether the decoder returns attention.
        options: differ from those of the architecture, and from COMMON.
    """
    torch.manual_seed(seed)
    args = Namespace(**{**COMMON, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    cfg = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]].from_namespace(args)
    model = ARCH_MODEL_REGISTRY[arch].build_model(cfg, task or translation_task()).eval()
    model.decoder.need_attn = need_attn
    randomize_biases_(model)
    return model


tiny_convs2s, tiny_adl, tiny_pervasive = (
    partial(build, **FAMILIES[name].sizes) for name in ("convs2s", "adl", "pervasive")
)


def make(name, **options):
    """The model called ``name``, in evaluation mode; see ``build``."""
    return build(**{**MODELS, **NAMED}[name], **options)


def tiny_fairseq_transformer(task=None, **options):
    """A small transformer of fairseq."""
    torch.manual_seed(1)
    args = Namespace(
        encoder_embed_dim=16,
        encoder_ffn_embed_dim=16,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
        max_source_positions=64,
        max_target_positions=64,
        **options,
    )
    ARCH_CONFIG_REGISTRY["transformer_iwslt_de_en"](args)
    return ARCH_MODEL_REGISTRY["transformer_iwslt_de_en"].build_model(
        args, task or translation_task()
    )


def tiny_fairseq_fconv(**options):
    """A small fconv of fairseq."""
    sizes = {f"{side}_embed_dim": 16 for side in ("encoder", "decoder", "decoder_out")}
    layers = {f"{side}_layers": "[(16, 3)]" for side in ("encoder", "decoder")}
    args = Namespace(**sizes, **layers, max_source_positions=64, max_target_positions=64, **options)
    ARCH_CONFIG_REGISTRY["fconv_iwslt_de_en"](args)
    return ARCH_MODEL_REGISTRY["fconv_iwslt_de_en"].build_model(args, translation_task())


def config_with_objects(content: dict) -> DictConfig:
    """A configuration whose values may be objects, as in fairseq's checkpoints."""
    if "flags" in inspect.signature(OmegaConf.create).parameters:
        return OmegaConf.create(content, flags={"allow_objects": True})
    # omegaconf 2.0 has no such flag; fairseq lets it take all types for primitive ones.
    with mock.patch("omegaconf._utils.is_primitive_type", lambda _: True):
        return OmegaConf.create(content)
