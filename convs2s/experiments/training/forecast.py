"""A forecast of how long a first training run takes on this machine's processors."""

import time

import numpy as np

from ...common.installation import count_gpus
from ...common.programs import available_threads
from ...models import FAMILIES
from ...models.convs2s.layer_lists import ConvSpec, parse_layers
from ...models.convs2s.options import ConvS2SOptions
from ...text.vocabulary import Vocabulary
from .recipes import find_recipe
from .request import Data

# Measured with the recipe for little text: the share of the speed of a matrix multiplication that
# a training run reaches on one core, and the share of its time there that further cores do not
# shorten.
EFFICIENCY = 0.77
SERIAL = 0.46
# The side of the matrices, and the seconds that are spent on multiplying them.
SIDE, SECONDS = 768, 0.2


def forecast(data: Data) -> float | None:
    """The seconds of ``convs2s train`` without options, from its floating-point operations.

    Args:
        data: what ``convs2s prepare`` wrote.
    Returns:
        None if this machine has a GPU, whose speed is not known.
    """
    if count_gpus():
        return None
    recipe = find_recipe(None, data.pairs)[1]
    architecture = FAMILIES["convs2s"].architectures()[recipe.arch]
    options = ConvS2SOptions(**architecture.options)
    source, target = data.count_tokens()
    words = len(Vocabulary.load(data.folder / f"dict.{data.languages[1]}.txt"))
    operations = multiplications(options, source, target, words)
    # The backward pass computes the gradients of the inputs and of the weights.
    total = 2 * 3 * operations * recipe.epochs_for(data.pairs)
    cores = available_threads()
    on_one_core = total / (EFFICIENCY * matrix_speed() / cores)
    return on_one_core * (SERIAL + (1 - SERIAL) / cores)


def multiplications(options: ConvS2SOptions, source: int, target: int, words: int) -> int:
    """Scalar multiplications of one forward pass, without those of attention weights.

    Args:
        options: the model.
        source, target: the number of tokens.
        words: size of the target vocabulary.
    """
    width = options.encoder_embed_dim
    encoder = parse_layers(options.encoder_layers)
    decoder = parse_layers(options.decoder_layers)
    attention = sum(2 * width * layer.channels for layer in decoder)
    features = options.decoder_out_embed_dim
    ends = decoder[-1].channels * features + features * words
    return source * (_layers(encoder, width) + encoder[-1].channels * width) + target * (
        _layers(decoder, width) + attention + ends
    )


def _layers(layers: list[ConvSpec], width: int) -> int:
    """Multiplications of a chain of convolutions, and of the map to its channels, at a position."""
    inputs = [layers[0].channels, *(layer.channels for layer in layers)]
    gated = sum(
        2 * layer.kernel_size * channels * layer.channels for channels, layer in zip(inputs, layers)
    )
    return width * layers[0].channels + gated


def matrix_speed() -> float:
    """Floating-point operations per second in multiplications of matrices, in 32 bits."""
    matrix = np.ones((SIDE, SIDE), dtype=np.float32)
    best, begin = 0.0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        matrix @ matrix
        best = max(best, 2 * SIDE**3 / (time.perf_counter() - start))
    return best
