"""The options of bag-of-words models, and their defaults."""

from dataclasses import dataclass

from convs2s.models.options import Architecture, NetworkOptions, option

ARCHITECTURES = {
    "bag_of_words": Architecture({}, "docs/add_a_family.md"),
    "bag_of_words_small": Architecture({"embed_dim": 64}, "docs/add_a_family.md"),
}


@dataclass
class BagOfWordsOptions(NetworkOptions):
    """The options of bag-of-words models."""

    embed_dim: int = option(256, "embedding size")
    dropout: float = option(0.1, "dropout probability")
