"""fairseq's Transformer encoders that torch's fused layer cannot compute."""

import functools
from typing import Any

from fairseq.modules.transformer_layer import TransformerEncoderLayerBase as Layer


def compute_without_fused_layers() -> None:
    """Let Transformer encoders of checkpoints compute as in training.

    fairseq 0.12.2 gives torch's fused encoder layer the mask of padding, but not its kind, which
    torch asks for since version 2: every batch with padding fails, unless the encoder has
    --encoder-normalize-before. Later versions of fairseq do not use that layer.
    """
    if "_transformer_encoder_layer_fwd" not in Layer.forward.__code__.co_names:
        return
    original = Layer._load_from_state_dict

    @functools.wraps(original)
    def _load_from_state_dict(self: Any, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        self.load_to_BT = False

    Layer._load_from_state_dict = _load_from_state_dict
