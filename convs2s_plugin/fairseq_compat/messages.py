"""Errors of fairseq and torch that a user can act on, as one sentence without a traceback."""

import os
import re
import sys

from ..errors import UserError

TRACEBACK_VARIABLE = "CONVS2S_TRACEBACK"


def sentence_for(error: BaseException) -> str | None:
    """The sentence for an error that a user can act on, or None for any other error.

    fairseq wraps errors in others of its own, so that a UserError is sought in the whole chain.
    """
    seen = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, UserError):
            return str(cause)
        seen.add(id(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    if isinstance(error, UnicodeDecodeError) and error.encoding.replace("-", "") == "utf8":
        return (
            f"The input is not valid UTF-8: byte 0x{error.object[error.start]:02x} at offset "
            f"{error.start} of the block being read ({error.reason}). Convert it "
            "(`iconv -f latin1 -t utf-8`) or drop what is broken (`iconv -c -t utf-8`)."
        )
    text = re.sub(r"np\.\w+\((\d+)\)", r"\1", str(error))
    too_long = re.search(
        r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*?), skip", text
    )
    no_memory = re.search(
        r"can't allocate memory: you tried to allocate (\d+ bytes)"
        r"|out of memory\. Tried to allocate ([\d.]+ \w+)",
        text,
    )
    if no_memory:
        return (
            f"There is not enough memory: {no_memory.group(1) or no_memory.group(2)} more were "
            "needed. Smaller batches take less: --batch-size, --max-tokens, and for pervasive "
            "attention --max-cells of --task convs2s_translation."
        )
    if too_long:
        number, size, limit = too_long.groups()
        return (
            f"Sentence {number} (counted from 0) has {size} tokens (source, target), ends of "
            f"sentence included; the limit is {limit}. Shorten it, leave such sentences out "
            "with --skip-invalid-size-inputs-valid-test, or train with larger "
            "--max-source-positions and --max-target-positions."
        )
    return None


def install_excepthook() -> None:
    """Print user errors as their sentence; set CONVS2S_TRACEBACK=1 to see the traceback too."""
    previous = sys.excepthook

    def hook(kind, error, traceback):
        sentence = sentence_for(error)
        if sentence is None or os.environ.get(TRACEBACK_VARIABLE):
            previous(kind, error, traceback)
        if sentence is not None:
            print(f"error: {sentence}", file=sys.stderr)

    sys.excepthook = hook
