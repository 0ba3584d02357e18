"""Dictionaries for commands that need a model, but no text."""

from fairseq.data import Dictionary


def dictionary_of_size(size: int) -> Dictionary:
    """A dictionary of ``size`` tokens, fairseq's special symbols among them."""
    dictionary = Dictionary()
    dictionary.symbols += [str(i) for i in range(size - len(dictionary))]
    dictionary.indices.update({symbol: i for i, symbol in enumerate(dictionary.symbols)})
    dictionary.count += [1] * (size - len(dictionary.count))
    return dictionary
