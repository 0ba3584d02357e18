"""The base classes of all families: encoder, decoder, model, options, named architectures."""

from .architectures import Architecture, fill_defaults, register_architectures
from .decoder import PluginDecoder
from .embeddings import build_embedding_matrices, build_embedding_matrix, check_shared_embeddings
from .encoder import PluginEncoder
from .model import PluginModel
from .options import EmbeddingOptions, check_lengths, max_length_or_default

__all__ = [
    "Architecture",
    "EmbeddingOptions",
    "PluginDecoder",
    "PluginEncoder",
    "PluginModel",
    "build_embedding_matrices",
    "build_embedding_matrix",
    "check_lengths",
    "check_shared_embeddings",
    "fill_defaults",
    "max_length_or_default",
    "register_architectures",
]
