"""Named architectures: tables of options that fairseq's ``--arch`` and YAML's ``_name`` know."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from fairseq.models import register_model_architecture
from omegaconf import OmegaConf


def register_architectures(
    model: str, config_class: type, base: dict[str, Any], named: Mapping[str, dict[str, Any]]
) -> None:
    """Give every row of a table to fairseq.

    Args:
        model: the name that the model was registered with.
        config_class: its options; those that an architecture may set default to None.
        base: what these are where an architecture does not say.
        named: name -> options that differ from ``base``.
    """
    for name, options in named.items():
        if name != model:
            register_model_architecture(model, name)(_applier(config_class, {**base, **options}))


def _applier(config_class: type, options: dict[str, Any]):
    def apply(args) -> None:
        # From YAML the model's defaults have not been merged, and with older omegaconf a missing
        # option reads as None, so that every option is set here.
        for option in fields(config_class):
            belongs_to_task = str(option.default).startswith("${")
            if option.name.startswith("_") or belongs_to_task and not OmegaConf.is_config(args):
                continue
            if getattr(args, option.name, None) is None:
                setattr(args, option.name, options.get(option.name, option.default))

    return apply


def fill_defaults(cfg, base: dict[str, Any]) -> None:
    """Fill what neither the user nor an architecture has said."""
    for name, value in base.items():
        if getattr(cfg, name, None) is None:
            setattr(cfg, name, value)
