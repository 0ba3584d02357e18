"""What all families build on: encoder, decoder, model, options, tables of architectures."""

from .architectures import fill_defaults, register_architectures
from .decoder import PluginDecoder
from .embeddings import build_embedding, build_embeddings, check_sharing
from .encoder import PluginEncoder
from .model import PluginModel
from .options import EmbeddingOptions, max_positions

__all__ = [
    "PluginDecoder",
    "PluginEncoder",
    "PluginModel",
    "EmbeddingOptions",
    "build_embedding",
    "check_sharing",
    "fill_defaults",
    "max_positions",
    "register_architectures",
    "build_embeddings",
]
