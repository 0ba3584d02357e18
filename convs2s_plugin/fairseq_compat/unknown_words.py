"""``--replace-unk``: the task of this package replaces unknown words, not fairseq's commands."""

from fairseq import utils

# Values of --replace-unk without a file: from the command line, and from Python.
REPLACE_UNK_WITHOUT_FILE = ("@@ ", "", True)


def leave_unknown_words_to_the_task() -> None:
    """Keep fairseq's commands from replacing unknown words after the task has replaced them.

    Their replacement needs alignments, which are not computed without ``--print-alignment``, and
    raw source text, which binarized data does not have.
    """
    utils.load_align_dict = lambda replace_unk: None
