"""The options that are definitions in ADL, and what checkpoints keep of them."""

from omegaconf import OmegaConf

from ..adl.nodes import write
from ..adl.recipe import Settings
from ..adl.syntax import parse
from .base import max_positions

DEFINITIONS = {"encoder_adl": "--encoder-adl", "decoder_adl": "--decoder-adl"}


def layer_settings(cfg, width: int) -> Settings:
    """What a model's options say about every layer that says nothing else.

    Args:
        cfg: options of ``options.LayersConfig`` and ``options.WordsConfig``, and ``dropout``.
        width: channels of what goes into the first layer.
    """
    return Settings(
        width,
        cfg.ff_dim,
        cfg.attention_heads,
        cfg.dropout,
        cfg.attention_dropout,
        max_positions(cfg.max_source_positions),
        max_positions(cfg.max_target_positions),
    )


def keep_definitions(cfg) -> None:
    """Let checkpoints hold what ``@file`` stood for, so that they can be loaded anywhere.

    fairseq saves the configuration that this one is a copy of.

    Args:
        cfg: a model's options; a definition may be None.
    """
    saved = cfg._get_parent() if OmegaConf.is_config(cfg) else None
    if saved is None or "model" not in saved:
        return
    for name, option in DEFINITIONS.items():
        text = getattr(cfg, name)
        if text and "@" in text:
            saved.model[name] = write(parse(text, option))
