"""Shared by many tests: a dictionary, a task, small models, batches padded on either side."""

import inspect
from argparse import Namespace
from unittest import mock

import torch
from fairseq.data import Dictionary
from fairseq.data.language_pair_dataset import collate
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from omegaconf import DictConfig, OmegaConf

import convs2s_plugin  # noqa: F401  (registers the architectures)

WORDS = 31


def dictionary(words=WORDS):
    """A dictionary of ``w0`` ... and fairseq's special symbols."""
    symbols = Dictionary()
    for i in range(words):
        symbols.add_symbol(f"w{i}")
    return symbols


def translation_task(source=None, target=None):
    """The part of a translation task that is needed to build a model."""
    return Namespace(
        source_dictionary=source or dictionary(), target_dictionary=target or dictionary()
    )


def tiny_model(arch, task=None, seed=1, need_attn=True, **options):
    """A model of a registered architecture with random weights and biases, in evaluation mode.

    Args:
        arch: name of the architecture.
        task: see translation_task.
        seed: of the weights.
        need_attn: whether the decoder returns attention.
        options: differ from those of the architecture, and from these: no dropout, 64 positions.
    """
    torch.manual_seed(seed)
    args = Namespace(
        **{"dropout": 0.0, "max_source_positions": 64, "max_target_positions": 64, **options}
    )
    ARCH_CONFIG_REGISTRY[arch](args)
    cfg = MODEL_DATACLASS_REGISTRY[ARCH_MODEL_NAME_REGISTRY[arch]].from_namespace(args)
    model = ARCH_MODEL_REGISTRY[arch].build_model(cfg, task or translation_task()).eval()
    model.decoder.need_attn = need_attn
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def tiny_convs2s(task=None, **options):
    """A small ConvS2S model."""
    sizes = dict(
        encoder_embed_dim=16,
        decoder_embed_dim=16,
        decoder_out_embed_dim=16,
        encoder_layers="[(16, 3)] * 2 + [(24, 3)]",
        decoder_layers="[(16, 3)] * 2 + [(24, 3)]",
    )
    return tiny_model("convs2s_iwslt_de_en", task, **{**sizes, **options})


def tiny_adl(task=None, arch="adl_transformer", **options):
    """A small model defined in ADL."""
    return tiny_model(arch, task, **{"model_dim": 16, "attention_heads": 4, **options})


def tiny_pervasive(task=None, **options):
    """A small pervasive attention model."""
    sizes = dict(
        encoder_embed_dim=12, decoder_embed_dim=16, num_layers=3, growth_rate=4, kernel_size=3
    )
    return tiny_model("pervasive_iwslt_de_en", task, **{**sizes, **options})


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


def random_batch(lengths, left_pad_source=True, left_pad_target=False, seed=1, words=WORDS):
    """A batch of random sentences as fairseq makes it.

    Args:
        lengths: tokens of source and target of each sentence, end of sentence included.
    """
    symbols = dictionary(words)
    generator = torch.Generator().manual_seed(seed)

    def sentence(length):
        real = torch.randint(symbols.nspecial, len(symbols), (length - 1,), generator=generator)
        return torch.cat([real, torch.tensor([symbols.eos()])])

    samples = [
        {"id": i, "source": sentence(s), "target": sentence(t)} for i, (s, t) in enumerate(lengths)
    ]
    batch = collate(samples, symbols.pad(), symbols.eos(), left_pad_source, left_pad_target)
    # fairseq sorts by length; restore the given order.
    order = batch["id"].argsort()
    for key in ("src_tokens", "src_lengths", "prev_output_tokens"):
        batch["net_input"][key] = batch["net_input"][key][order]
    batch["target"] = batch["target"][order]
    batch["id"] = batch["id"][order]
    return batch


def loss_of_logits(logits, batch):
    """Cross-entropy summed over the tokens of a batch, padding excluded."""
    return torch.nn.functional.cross_entropy(
        logits.flatten(0, 1),
        batch["target"].flatten(),
        ignore_index=dictionary().pad(),
        reduction="sum",
    )


def config_with_objects(content: dict) -> DictConfig:
    """A configuration whose values may be objects, as in fairseq's checkpoints."""
    if "flags" in inspect.signature(OmegaConf.create).parameters:
        return OmegaConf.create(content, flags={"allow_objects": True})
    # omegaconf 2.0 has no such flag; fairseq lets it take all types for primitive ones.
    with mock.patch("omegaconf._utils.is_primitive_type", lambda _: True):
        return OmegaConf.create(content)
