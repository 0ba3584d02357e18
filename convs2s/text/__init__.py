"""From parallel text to training data, and from raw text to a model's tokens and back.

``convs2s prepare`` carries out these stages in order:

1. clean: read the files (``sources``), normalize and tokenize each line (``tokenizers``), and drop
   training pairs that would not help (``cleaning``);
2. select: drop duplicates, and cut a validation and a test set from the training text where
   none is given (``selection``);
3. learn sub-words on the training text (``subwords``);
4. encode and sample: split all text into sub-words (``texts``);
5. join the parts of the text, make the dictionaries (``vocabulary``) and binarize the text
   (``binarize``);
6. write ``preparation.yaml`` (``preparation``).

Text is read and written line by line, so that memory grows with the vocabulary, but not with the
text. Stages 1 and 4 and the binarizing write parts of 100,000 lines (``parts``), which shards can
share; the others write to a temporary folder, which gets its name when the stage is complete
(``stages``). A later call with the same settings continues with what is incomplete
(``pipeline``).

``Preparation`` reads ``preparation.yaml``. It prepares raw text in the same way for a trained
model, and turns the tokens of a translation into text. ``prepare_tokens`` carries out stages 3 to 5
for text that needs no cleaning. Nothing here imports torch or fairseq.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .preparation import Preparation, Side

if TYPE_CHECKING:
    from .workflow import prepare, prepare_tokens

__all__ = ["Preparation", "Side", "prepare", "prepare_tokens"]


def __getattr__(name: str) -> Any:
    # Programs that only read a preparation start faster.
    if name in ("prepare", "prepare_tokens"):
        return getattr(import_module(".workflow", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
