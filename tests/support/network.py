"""A model as a network of the library, whose logits the tests change."""


class Network:
    """The parts of a model of this package that the library's search calls.

    Args:
        model: a model in evaluation mode; ``change_logits`` changes its ``decoder.output_layer``.
    """

    def __init__(self, model):
        self.model = model
        self.output = model.decoder.output
        self.aligns_tokens = model.decoder.aligns_tokens
        self.max_source_length = model.encoder.max_positions()
        self.max_target_length = model.decoder.max_positions()

    def encode(self, tokens):
        return self.model.encoder(tokens)

    def decode(self, prefix, encoded, state, need_weights=False, **options):
        if hasattr(self.model, "decode"):
            return self.model.decode(prefix, encoded, state, need_weights, **options)
        padding = prefix.eq(self.model.decoder.dictionary.pad())
        features, attention = self.model.decoder.decode(
            prefix, padding, encoded, state, need_weights, **options
        )
        if state is not None:
            state.length = prefix.size(1)
        return features, attention(None) if callable(attention) else attention

    def logits(self, features):
        return self.model.decoder.output_layer(features)
