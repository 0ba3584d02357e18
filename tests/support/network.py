"""A model of fairseq with the interface of the library's networks."""


class Network:
    """The parts of a model of this package that the library's search calls.

    Args:
        model: a model in evaluation mode.
    """

    def __init__(self, model):
        self.model = model
        self.output = model.decoder.output
        self.aligns_tokens = model.decoder.aligns_tokens
        self.pad = model.decoder.dictionary.pad()
        self.max_source_length = model.encoder.max_positions()
        self.max_target_length = model.decoder.max_positions()

    def encode(self, tokens, maps=None):
        return self.model.encoder(tokens, attention_maps=maps)

    def decode(self, prefix, encoded, state, need_attention=False, target_tokens=None):
        options = {} if target_tokens is None else {"target_tokens": target_tokens}
        padding = prefix.eq(self.pad)
        features, attention = self.model.decoder.decode(
            prefix, padding, encoded, state, need_attention, **options
        )
        if state is not None:
            state.length = prefix.size(1)
        return features, attention(None) if callable(attention) else attention

    def logits(self, features):
        return self.model.decoder.output_layer(features)
