"""From parallel text to the data of a training, and from raw text to a model's tokens and back.

``convs2s prepare`` carries out these stages in order:

1. clean: read the files (``sources``), normalize and tokenize each line (``tokenizers``), and leave
   out training pairs that would not help (``cleaning``);
2. hold out: cut a validation and a test set from the training text where none is given
   (``cleaning``);
3. learn sub-words on the training text (``subwords``);
4. split all text into sub-words;
5. make the dictionaries (``vocabulary``) and binarize the text (``binarize``);
6. write ``preparation.yaml`` (``preparation``).

Text is read and written line by line, so that memory grows with the vocabulary, and by eight bytes
or more for each pair where duplicates are left out, but not with the text. A stage writes to a
temporary folder, which gets its name when the stage is complete; a later call with the same
settings continues after the last complete stage (``stages``).

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
    # Programs that only read a preparation start sooner.
    if name in ("prepare", "prepare_tokens"):
        return getattr(import_module(".workflow", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
