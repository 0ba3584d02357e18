"""The base classes of all families: encoder, decoder, model, options, named architectures."""

from .architectures import Architecture, fill_defaults, register_architectures
from .decoder import PluginDecoder
from .embeddings import build_embedding_matrices, build_embedding_matrix, check_shared_embeddings
from .encoder import PluginEncoder
from .model import PluginModel
from .options import (
    AlignmentOptions,
    EmbeddingOptions,
    check_alignment_layer,
    check_lengths,
    check_types,
    max_length_or_default,
)

__all__ = [
    "AlignmentOptions",
    "Architecture",
    "EmbeddingOptions",
    "PluginDecoder",
    "PluginEncoder",
    "PluginModel",
    "build_embedding_matrices",
    "build_embedding_matrix",
    "check_alignment_layer",
    "check_lengths",
    "check_shared_embeddings",
    "check_types",
    "fill_defaults",
    "max_length_or_default",
    "register_architectures",
]
