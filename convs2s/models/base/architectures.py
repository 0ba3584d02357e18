"""Named architectures: sets of options with a name for ``--arch``, or for ``_name`` in YAML."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from fairseq.models import register_model_architecture
from omegaconf import OmegaConf


class Architecture(NamedTuple):
    """A named architecture.

    Attributes:
        options: the options that differ from the base architecture of the family.
        source: where they come from, such as a section of a paper, for tables of architectures.
    """

    options: dict[str, Any]
    source: str = ""


def register_architectures(
    model: str,
    config_class: type,
    base: dict[str, Any],
    architectures: Mapping[str, Architecture],
) -> None:
    """Register named architectures of one model with fairseq.

    Args:
        model: the name under which the model is registered; an architecture of this name is
            skipped, because fairseq registers it together with the model.
        config_class: the option dataclass of the model. Options that an architecture may set must
            default to None in it.
        base: the base architecture; it has the values of options that an architecture does not set.
        architectures: name -> architecture.
    """
    for name, architecture in architectures.items():
        if name != model:
            apply = _architecture_function(config_class, {**base, **architecture.options})
            register_model_architecture(model, name)(apply)


def _architecture_function(config_class: type, options: dict[str, Any]):
    def apply(args) -> None:
        # With YAML, fairseq does not merge the defaults of the dataclass, and older versions of
        # omegaconf return None for a missing option. Therefore every option is set here.
        for option in fields(config_class):
            belongs_to_task = str(option.default).startswith("${")
            if option.name.startswith("_") or belongs_to_task and not OmegaConf.is_config(args):
                continue
            if getattr(args, option.name, None) is None:
                setattr(args, option.name, options.get(option.name, option.default))

    return apply


def fill_defaults(cfg, defaults: dict[str, Any]) -> None:
    """Set the options that neither the user nor a named architecture has set.

    Args:
        cfg: the options of a model; those that are None or missing are set.
        defaults: name -> value.
    """
    for name, value in defaults.items():
        if getattr(cfg, name, None) is None:
            setattr(cfg, name, value)
