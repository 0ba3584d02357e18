"""Models of ``convs2s export`` in Hugging Face's transformers.

    import convs2s.hf
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained("captions-de-en")
    tokenizer = AutoTokenizer.from_pretrained("captions-de-en")

Importing this package makes the models known to the Auto classes.
"""

from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer

from .config import Convs2sConfig
from .model import Convs2sForConditionalGeneration
from .tokenizer import Convs2sTokenizer

AutoConfig.register(Convs2sConfig.model_type, Convs2sConfig)
AutoModelForSeq2SeqLM.register(Convs2sConfig, Convs2sForConditionalGeneration)
AutoTokenizer.register(Convs2sConfig, slow_tokenizer_class=Convs2sTokenizer)

__all__ = ["Convs2sConfig", "Convs2sForConditionalGeneration", "Convs2sTokenizer"]
