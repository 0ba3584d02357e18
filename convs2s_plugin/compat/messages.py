"""One sentence instead of a traceback for errors that the user can correct."""

import os
import re
import sys
from typing import Any

from omegaconf.errors import ValidationError

from convs2s.common.errors import NOT_FINITE, TRACEBACK_VARIABLE, UserError

from .patches import Tier, is_installed, patched


@patched(sys, "excepthook", Tier.NEEDED)
def print_error(original: Any, kind: Any, error: BaseException, traceback: Any) -> None:
    """Print the message of an error instead of its traceback.

    Before the changes of ``Tier.EXTRA``, only errors that this package has raised have one. If the
    environment variable CONVS2S_TRACEBACK is set, the traceback is printed, too.
    """
    message = user_message(error) if is_installed(Tier.EXTRA) else _user_error(error)
    if message is None or os.environ.get(TRACEBACK_VARIABLE):
        original(kind, error, traceback)
    if message is not None:
        print(f"error: {message}", file=sys.stderr)


def user_message(error: BaseException) -> str | None:
    """The message to show instead of a traceback, or None if the user cannot correct the error."""
    return next(filter(None, (message_of(error) for message_of in MESSAGES)), None)


def is_unknown_model(error: AssertionError | LookupError) -> bool:
    """Whether fairseq raised an error because the model of a checkpoint is not registered.

    fairseq formats its message twice. Options that are printed in braces make the second time fail
    with a KeyError for their first name, or an IndexError if there are none.
    """
    text = str(error.args[0]) if error.args else ""
    if isinstance(error, IndexError):
        return "Replacement index" in text
    return "Could not infer model type" in text or isinstance(error, KeyError) and text[:1] == "'"


def _user_error(error: BaseException) -> str | None:
    """The message of a UserError, which fairseq may have wrapped in other exceptions."""
    seen = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, UserError):
            return str(cause)
        seen.add(id(cause))
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return None


def _not_found(error: BaseException) -> str | None:
    text = str(error)
    match = re.match(r"(Model file|Dataset) not found: (.*)", text)
    if isinstance(error, OSError) and match:
        if match[1] == "Model file":
            return f"There is no checkpoint {match[2]}."
        return (
            f"There is no data set {match[2]}: fairseq-preprocess writes two files for each "
            "language, NAME.SOURCE-TARGET.LANGUAGE.bin and .idx."
        )
    if isinstance(error, ValueError) and re.fullmatch(r"--finetune-from-model .* exist", text):
        return f"{text}."
    if isinstance(error, RuntimeError) and text.startswith("Neither args nor cfg exist"):
        return "The checkpoint (--path) is not one of fairseq-train: it has no options."
    if text.startswith("Could not infer language pair"):
        return (
            "The languages are not known, because the data folder has no binarized data: give the "
            "folder that fairseq-preprocess wrote (--destdir), or also --source-lang and "
            "--target-lang."
        )
    return None


def _wrong_type(error: BaseException) -> str | None:
    if not isinstance(error, ValidationError) or not error.full_key:
        return None
    option = error.full_key.rpartition(".")[2].replace("_", "-")
    return (
        f"--{option} has a value of another type: {str(error).splitlines()[0]}. If the option is "
        "that of a checkpoint, the checkpoint is damaged."
    )


def _invalid_utf8(error: BaseException) -> str | None:
    if not isinstance(error, UnicodeDecodeError) or error.encoding.replace("-", "") != "utf8":
        return None
    return (
        f"The input is not valid UTF-8: byte 0x{error.object[error.start]:02x} at offset "
        f"{error.start} of the block being read ({error.reason}). Convert it "
        "(`iconv -f latin1 -t utf-8`) or drop the invalid bytes (`iconv -c -t utf-8`)."
    )


def _out_of_memory(error: BaseException) -> str | None:
    match = re.search(
        r"can't allocate memory: you tried to allocate (\d+ bytes)"
        r"|out of memory\. Tried to allocate ([\d.]+ \w+)",
        str(error),
    )
    if match is None:
        return None
    return (
        f"There is not enough memory: {match[1] or match[2]} more are needed. Use smaller "
        "batches: --batch-size, --max-tokens, and for pervasive attention --max-cells of "
        "--task convs2s_translation."
    )


def _too_long(error: BaseException) -> str | None:
    # NumPy 2 prints numbers as np.int64(5).
    text = re.sub(r"np\.\w+\((\d+)\)", r"\1", str(error))
    match = re.search(
        r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*?), skip", text
    )
    if match is None:
        return None
    number, size, limit = match.groups()
    return (
        f"Sentence {number} (counted from 0) has {size} tokens (source, target), ends of sentence "
        f"included; the limit is {limit}. Shorten it, leave such sentences out with "
        "--skip-invalid-size-inputs-valid-test, or train with larger --max-source-positions and "
        "--max-target-positions."
    )


def _not_finite(error: BaseException) -> str | None:
    if not isinstance(error, FloatingPointError) or str(error) != "gradients are Nan/Inf":
        return None
    return (
        f"{NOT_FINITE}, so that the training ends without this update. The log above names the "
        "first module with such a value, and crash.pt in --save-dir has the weights before the "
        "update. If they have grown, go back to an earlier checkpoint with a smaller --lr, more "
        "--warmup-updates or a smaller --clip-norm; with --autocast-dtype float16, use bfloat16."
    )


MESSAGES = (
    _user_error,
    _not_found,
    _wrong_type,
    _invalid_utf8,
    _out_of_memory,
    _too_long,
    _not_finite,
)
