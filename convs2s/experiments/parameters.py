"""Count the parameters of embedding matrices and output layers in a checkpoint."""

import re
from pathlib import Path

# Embedding matrices of tokens, and weights and biases of output layers, here and in fairseq.
VOCABULARY = re.compile(
    r"(embed\.words|embed_tokens|embed_tokens\.\d+\.\d+)\.weight$"
    r"|(^|\.)decoder\.(output\.words|output|output_projection|fc_out|fc3|embed_out)"
    r"(\.(weight|weight_g|weight_v|bias))?$"
)


def vocabulary_parameters(checkpoint: Path) -> int:
    """The number of parameters whose size depends on the vocabulary; shared ones count once.

    Args:
        checkpoint: a checkpoint of fairseq-train. An average of checkpoints has a copy of each
            matrix that is shared.
    """
    import torch

    weights = torch.load(checkpoint, map_location="cpu", weights_only=True)["model"]
    tensors = {
        (tensor.data_ptr(), tensor.shape): tensor.numel()
        for name, tensor in weights.items()
        if VOCABULARY.search(name)
    }
    return sum(tensors.values())
