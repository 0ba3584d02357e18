"""From parallel text to the data of a training, and from raw text to a model's tokens and back.

``convs2s prepare`` carries out these stages in order:

1. clean: read the files (``sources``), normalize each line (``normalize``), tokenize it
   (``tokenizers``), and leave out training pairs that would not help (``cleaning``);
2. hold out: cut a validation and a test set from the training text where none is given
   (``held_out``);
3. learn sub-words on the training text (``learning``);
4. split all text into sub-words (``subwords``);
5. binarize it with fairseq-preprocess (``binarize``);
6. write ``preparation.yaml`` (``record``) and print a command that trains a first model
   (``first_model``).

Text is read and written line by line, so that memory grows with the vocabulary, and by eight bytes
or more for each pair where duplicates are left out, but not with the text. A stage writes to a
temporary folder, which gets its name when the stage is complete; a later call with the same
settings continues after the last complete stage (``stages``).

``Preparation`` reads ``preparation.yaml``. It prepares raw text in the same way for a trained
model, and turns the tokens of a translation into text. Nothing here imports torch or fairseq.
"""

from .preparation import Preparation, Side

__all__ = ["Preparation", "Side"]
