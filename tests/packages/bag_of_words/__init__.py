"""A bag-of-words translation model: a family of its own, for fairseq's ``--user-dir``."""

from convs2s_plugin.models import PluginModel, register_family

from .network import BagOfWords
from .options import ARCHITECTURES


@register_family("bag_of_words", ARCHITECTURES)
class BagOfWordsModel(PluginModel, BagOfWords):
    """Bag-of-words models for fairseq."""
