"""Entry points of ``torch.hub``: models that translate text.

model = torch.hub.load("path/to/this/folder", "translator", "prepared", source="local")
model.translate("Zwei Hunde rennen.", beam=5)
"""

import typing

from convs2s_plugin.hub import HubInterface as _HubInterface
from convs2s_plugin.hub import from_pretrained as _from_pretrained
from convs2s_plugin.models import AdlModel as _AdlModel
from convs2s_plugin.models import ConvS2SModel as _ConvS2SModel
from convs2s_plugin.models import PervasiveModel as _PervasiveModel

dependencies = [
    "backports",
    "fairseq",
    "numpy",
    "sacrebleu",
    "subword_nmt",
    "torch",
    "tqdm",
    "yaml",
]


def translator(
    path: str, checkpoint_file: str | None = None, **options: typing.Any
) -> _HubInterface:
    """A trained model of any family, or one of fairseq's own translation models.

    Args:
        path: the folder of a training run, or of ``convs2s prepare`` above it, or a checkpoint; or
            the address of an archive of such a folder, which is downloaded once.
        checkpoint_file: the checkpoint in the folder, or several separated by colons, which form an
            ensemble. By default, the first of ``average.pt``, ``checkpoint_best.pt``,
            ``model.pt``, ``model.safetensors`` and ``checkpoint_last.pt``.
        options: see ``convs2s_plugin.hub.from_pretrained``.
    """
    return _from_pretrained(path, checkpoint_file, **options)


def convs2s(path: str, checkpoint_file: str | None = None, **options: typing.Any) -> _HubInterface:
    """A trained ConvS2S model; arguments as for ``translator``."""
    return _from_pretrained(path, checkpoint_file, model=_ConvS2SModel, **options)


def pervasive(
    path: str, checkpoint_file: str | None = None, **options: typing.Any
) -> _HubInterface:
    """A trained pervasive attention model; arguments as for ``translator``."""
    return _from_pretrained(path, checkpoint_file, model=_PervasiveModel, **options)


def adl(path: str, checkpoint_file: str | None = None, **options: typing.Any) -> _HubInterface:
    """A trained model in ADL; arguments as for ``translator``."""
    return _from_pretrained(path, checkpoint_file, model=_AdlModel, **options)
