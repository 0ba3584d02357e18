"""The options of bag-of-words models, and their defaults."""

from dataclasses import dataclass, field
from typing import Optional

from convs2s.models.base import Architecture, EmbeddingOptions

MODEL = "bag_of_words"
BASE = {"embed_dim": 256, "dropout": 0.1}
ARCHITECTURES = {
    "bag_of_words": Architecture({}, "docs/add_a_family.md"),
    "bag_of_words_small": Architecture({"embed_dim": 64}, "docs/add_a_family.md"),
}


@dataclass
class BagOfWordsConfig(EmbeddingOptions):
    """The options of bag-of-words models; None stands for the architecture's value."""

    embed_dim: Optional[int] = field(default=None, metadata={"help": "embedding size"})
    dropout: Optional[float] = field(default=None, metadata={"help": "dropout probability"})
