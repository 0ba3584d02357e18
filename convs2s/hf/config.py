"""The configuration of a model, and its folder."""

from pathlib import Path
from typing import Any

from huggingface_hub import snapshot_download
from transformers import PretrainedConfig

from ..checkpoints.model_folder import Config
from ..common.errors import UserError
from ..models.interface import Vocabularies

# Options of `from_pretrained` that say where on the Hub the folder is.
OF_THE_HUB = ("cache_dir", "force_download", "local_files_only", "revision", "token")
# The same for every model: special symbols have these indices.
SYMBOLS = Vocabularies(0, 0)
DEFAULTS = {
    "is_encoder_decoder": True,
    "tie_word_embeddings": False,
    "pad_token_id": SYMBOLS.pad,
    "eos_token_id": SYMBOLS.eos,
    "bos_token_id": SYMBOLS.bos,
    "decoder_start_token_id": SYMBOLS.eos,
}


class Convs2sConfig(PretrainedConfig):
    """What ``config.json`` says; its entries are attributes."""

    model_type = "convs2s"

    def __init__(self, **options: Any):
        super().__init__(**{**DEFAULTS, **options})
        # transformers makes a configuration without options, to compare with.
        self.vocab_size = options.get("dictionaries", {}).get("target", {}).get("tokens", 0)

    def exported(self) -> Config:
        """The same as ``convs2s export`` writes it."""
        names = Config.model_fields.keys() & vars(self).keys()
        return Config(**{name: getattr(self, name) for name in names})


def folder_of(name: str | Path, options: dict[str, Any]) -> Path:
    """The folder of a model on this machine; a name on the Hub is fetched.

    Args:
        name: a folder, or a name on the Hub.
        options: options of ``from_pretrained``; those in OF_THE_HUB count.
    Raises:
        UserError: if there is no such folder, and it cannot be fetched.
    """
    folder = Path(name)
    if folder.is_dir():
        return folder
    given = {key: value for key in OF_THE_HUB if (value := options.get(key)) is not None}
    try:
        return Path(snapshot_download(str(name), **given))
    except (OSError, ValueError) as error:
        reason = next(iter(str(error).splitlines()), "")
        raise UserError(
            f"There is no folder {name}, and it cannot be fetched from the Hub: {reason}"
        ) from error
