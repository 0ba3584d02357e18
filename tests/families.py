"""Small models of every family and option, for the tests that all of them must pass."""

from .helpers import tiny_model

MODELS = {
    "convs2s": {},
    "convs2s-even-kernels": dict(encoder_layers="[(16, 4), (16, 2)]", decoder_layers="[(16, 4)]"),
    "convs2s-residuals": dict(
        encoder_layers="[(16, 3, 0), (24, 3, 2)]", decoder_layers="[(16, 3), (24, 3, 2), (8, 1, 0)]"
    ),
    "convs2s-some-attention": dict(decoder_attention="[True, False, True]"),
    "convs2s-no-positions": dict(no_source_positions=True, no_target_positions=True),
    "convs2s-no-source-positions": dict(no_source_positions=True),
    "convs2s-no-target-positions": dict(no_target_positions=True),
    "convs2s-shared": dict(share_all_embeddings=True),
}


def make(name, **options):
    """The model called ``name``, in evaluation mode."""
    return tiny_model(**{**MODELS[name], **options})
