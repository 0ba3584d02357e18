"""fairseq's options of a network: derived from the network's own dataclass."""

from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.models import register_model_architecture
from omegaconf import II, OmegaConf

from convs2s.common.errors import UserError
from convs2s.models import FAMILIES, add_architectures
from convs2s.models.adl.language.parser import MAX_LENGTH, parse
from convs2s.models.adl.language.tree import write
from convs2s.models.adl.options import DEFINITIONS
from convs2s.models.options import Architecture, NetworkOptions, checked_values, kind_of

# Options of every model that the networks do not know: files of pre-trained embeddings.
EMBEDDING_FILES = {
    "encoder_embed_path": "file of pre-trained source embeddings",
    "decoder_embed_path": "file of pre-trained target embeddings",
}
# Options that belong to the task.
OF_THE_TASK = ("max_source_positions", "max_target_positions")


def fairseq_options(options: type[NetworkOptions]) -> type[FairseqDataclass]:
    """The dataclass from which fairseq makes command-line options.

    Values are None until a named architecture, or the defaults of the network, fill them. The
    maximum lengths are those of the task.

    Args:
        options: the dataclass of a network.
    """
    made: list[tuple[str, Any, Any]] = [
        # fairseq reads this spelling.
        (name, Optional[str], field(default=None, metadata={"help": text}))
        for name, text in EMBEDDING_FILES.items()
    ]
    for each in fields(options):
        kind: Any = Optional[kind_of(each.type)]  # noqa: UP045  (fairseq reads this spelling)
        default, metadata = None, dict(each.metadata)
        if each.name in OF_THE_TASK:
            # Without help, fairseq does not add an option for it.
            default, metadata = II(f"task.{each.name}"), {}
        made.append((each.name, kind, field(default=default, metadata=metadata)))
    return make_dataclass(
        f"Fairseq{options.__name__}",
        made,
        bases=(FairseqDataclass,),
        namespace={"__doc__": options.__doc__, "__module__": __name__},
    )


def register_architectures(
    model: str, options: type[NetworkOptions], architectures: Mapping[str, Architecture]
) -> None:
    """Register named architectures of a model with fairseq, and with the library.

    Args:
        model: the name under which the model is registered; an architecture of this name is
            skipped, because fairseq registers it together with the model.
        options: the dataclass of the network.
        architectures: name -> architecture.
    """
    if model in FAMILIES and not architectures.keys() <= FAMILIES[model].architectures().keys():
        add_architectures(model, architectures)
    for name, architecture in architectures.items():
        if name != model:
            apply = _architecture_function(options, architecture.options)
            register_model_architecture(model, name)(apply)


def _architecture_function(options: type[NetworkOptions], values: Mapping[str, Any]):
    def apply(args) -> None:
        # With YAML, fairseq does not merge the defaults of the dataclass, and older versions of
        # omegaconf return None for a missing option. Therefore every option is set here.
        for name in EMBEDDING_FILES:
            setattr(args, name, getattr(args, name, None))
        for each in fields(options):
            if getattr(args, each.name, None) is not None:
                continue
            if each.name not in OF_THE_TASK:
                setattr(args, each.name, values.get(each.name, each.default))
            elif OmegaConf.is_config(args):
                setattr(args, each.name, II(f"task.{each.name}"))

    return apply


def network_options(options: type[NetworkOptions], cfg: Any) -> NetworkOptions:
    """The options of a network from those of fairseq.

    Args:
        options: the dataclass of the network.
        cfg: a configuration, or a namespace.
    Raises:
        UserError: if a value does not have the type of its option.
    """
    return options(**checked_values(options, lambda name: getattr(cfg, name, None)))


def keep_definitions(cfg: Any) -> None:
    """Replace ``@file`` in definitions with the text of the file, so that checkpoints contain it.

    ``cfg`` is a copy of the configuration that fairseq saves; this function changes the latter.

    Args:
        cfg: a model's options; a definition may be missing.
    Raises:
        UserError: if a definition is longer than the parser allows with the text of its files.
    """
    saved = cfg._get_parent() if OmegaConf.is_config(cfg) else None
    if saved is None or "model" not in saved:
        return
    for name, option in DEFINITIONS.items():
        text = getattr(cfg, name, None)
        if text and "@" in text:
            whole = write(parse(text, option))
            if len(whole) > MAX_LENGTH:
                raise UserError(
                    f"With the files that it includes, {option} has {len(whole):,} characters, "
                    f"more than the {MAX_LENGTH:,} that a checkpoint can hold: define a chain that "
                    "is used several times with 'let'."
                )
            saved.model[name] = whole
