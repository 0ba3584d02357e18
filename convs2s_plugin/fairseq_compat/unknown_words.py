"""``--replace-unk``: the task replaces unknown words, not fairseq's commands."""

from fairseq import utils

# What fairseq's parser makes of --replace-unk without a file, and what its Python interface says.
REPLACE_UNK_WITHOUT_FILE = ("@@ ", "", True)


def leave_unknown_words_to_the_task() -> None:
    """Keep fairseq's commands from replacing unknown words, which the task does in the search.

    They would do it from alignments that they have not got, or cannot read, and from raw text
    that binarised data does not have.
    """
    utils.load_align_dict = lambda replace_unk: None
