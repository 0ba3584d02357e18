"""The library's networks as models of fairseq."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from fairseq.models import register_model

from convs2s.models import FAMILIES, Family
from convs2s.models.adl.network import AdlNetwork
from convs2s.models.convs2s.network import ConvS2S
from convs2s.models.interface import Network
from convs2s.models.options import Architecture
from convs2s.models.pervasive.network import Pervasive

from .adapters import PluginDecoder, PluginEncoder, PluginModel
from .options import fairseq_options, register_architectures

__all__ = [
    "AdlModel",
    "ConvS2SModel",
    "PervasiveModel",
    "PluginDecoder",
    "PluginEncoder",
    "PluginModel",
    "register_architectures",
    "register_family",
]

Model = TypeVar("Model", bound="type[PluginModel]")


def register_family(
    name: str, architectures: Mapping[str, Architecture] | None = None
) -> Callable[[Model], Model]:
    """Register a model and the named architectures of its family with fairseq.

    Args:
        name: the family, which is also the name of the architecture with the default options.
        architectures: its named architectures; None for a family of ``convs2s.models``. The
            commands of ``convs2s`` then know the family, too.
    Returns:
        A decorator of a class that derives from ``PluginModel`` and from a network.
    """

    def register(model: Model) -> Model:
        options = model.options_class
        if architectures is not None:
            network = next(
                base
                for base in model.__mro__
                if issubclass(base, Network) and not issubclass(base, PluginModel)
            )
            FAMILIES[name] = Family(lambda: network, lambda: architectures)
        register_model(name, dataclass=fairseq_options(options))(model)
        register_architectures(name, options, FAMILIES[name].architectures())
        return model

    return register


@register_family("convs2s")
class ConvS2SModel(PluginModel, ConvS2S):  # type: ignore[misc]
    """Convolutional sequence to sequence learning (Gehring et al. 2017)."""


@register_family("pervasive")
class PervasiveModel(PluginModel, Pervasive):  # type: ignore[misc]
    """Pervasive attention (Elbayad et al. 2018)."""


@register_family("adl")
class AdlModel(PluginModel, AdlNetwork):  # type: ignore[misc]
    """An encoder and a decoder that are written in ADL (Domhan 2018)."""
