"""One sentence instead of a traceback for errors that the user can correct."""

import logging
import os
import re
import sys
import warnings
from typing import Any

from omegaconf.errors import ValidationError

from convs2s.common.errors import NOT_FINITE, TRACEBACK_VARIABLE, UserError

from .patches import Tier, is_installed, patched

# Errors that a user can correct: the class, the text as a regular expression, and the message with
# the groups of the text.
KNOWN = (
    (OSError, r"^Model file not found: (.*)", "There is no checkpoint {}."),
    (
        OSError,
        r"^Dataset not found: (.*)",
        "There is no data set {}: fairseq-preprocess writes two files for each language, "
        "NAME.SOURCE-TARGET.LANGUAGE.bin and .idx.",
    ),
    (ValueError, r"^(--finetune-from-model .* exist)$", "{}."),
    (AssertionError, r"^--path required", "There is no checkpoint to translate with: give --path."),
    # What fairseq says about options that exclude or need one another.
    (
        AssertionError,
        r"^(--[a-z][\w-]* (?:requires|cannot be|must be) .*)$",
        "{}.",
    ),
    (
        ValueError,
        r"^Provided Search parameters are mutually exclusive",
        "Only one kind of search is possible: omit all but one of --sampling, "
        "--diverse-beam-groups, --match-source-len and --diversity-rate.",
    ),
    (
        ValueError,
        r"^DiverseBeamSearch requires --beam to be divisible",
        "--beam must be a multiple of --diverse-beam-groups.",
    ),
    (
        NotImplementedError,
        r"^Unknown post_process option: (.*)",
        "--post-process (--remove-bpe) is {}, but must be subword_nmt, sentencepiece, wordpiece, "
        "letter, silence, _EOW or none.",
    ),
    (
        AssertionError,
        r"^Must specify batch size",
        "There is neither --max-tokens nor --batch-size: give one of them.",
    ),
    (
        AssertionError,
        r"^(Criterion|Optimizer) does not match; .*\(--reset-optimizer\)\. (\S+) vs (\S+)$",
        "{} of the checkpoint and of this training run differ: {}, now {}. Use the same again, or "
        "add --reset-optimizer to start with the weights of the checkpoint and a new optimizer.",
    ),
    (
        ValueError,
        r"^loaded state dict (?:contains a parameter group that doesn't match|has a different)",
        "The state of the optimizer in the checkpoint belongs to other parameters: use the same "
        "options again, or add --reset-optimizer to start with a new optimizer.",
    ),
    (
        Exception,
        r"^Cannot load model parameters from checkpoint (.*); please",
        "The model of {} has other options than that of this training run: give the same ones, or "
        "choose another --save-dir.",
    ),
    (
        Exception,
        r"^The dataset is empty\. This could indicate that all",
        "A data set is empty, or all its sentences are too long: see the warnings above, and give "
        "larger --max-source-positions, --max-target-positions or --max-tokens.",
    ),
    (
        RuntimeError,
        r"^Neither args nor cfg exist",
        "The checkpoint (--path) is not one of fairseq-train: it has no options.",
    ),
    (
        Exception,
        r"^Could not infer language pair",
        "The languages are not known, because the data folder has no binarized data: give the "
        "folder that fairseq-preprocess wrote (--destdir), or also --source-lang and "
        "--target-lang.",
    ),
    (
        Exception,
        r"(?:allocate memory: you tried to|out of memory\. Tried to) allocate ([\d.]+ \w+)",
        "There is not enough memory: {} more are needed. Use smaller batches: --batch-size, "
        "--max-tokens, and for pervasive attention --max-cells of --task convs2s_translation.",
    ),
    (
        Exception,
        r"Size of sample #(\d+) is invalid \(=(.*)\) since max_positions=(.*?), skip",
        "Sentence {} (counted from 0) has {} tokens (source, target), ends of sentence included; "
        "the limit is {}. Shorten it, skip such sentences with "
        "--skip-invalid-size-inputs-valid-test, or train with larger --max-source-positions and "
        "--max-target-positions.",
    ),
    (
        FloatingPointError,
        r"^gradients are Nan/Inf$",
        f"{NOT_FINITE}, so training ends without this update. The log above names the "
        "first module with such a value, and crash.pt in --save-dir has the weights before the "
        "update. If they have grown, go back to an earlier checkpoint with a smaller --lr, more "
        "--warmup-updates or a smaller --clip-norm; with --autocast-dtype float16, use bfloat16.",
    ),
)


# Warnings about code of fairseq, which its users cannot change.
HIDDEN = (
    (UserWarning, r"(?s).*hydra"),
    (UserWarning, r"'pin_memory' argument is set as true but no accelerator"),
    (FutureWarning, r"`?torch\.cuda\.amp\.autocast"),
)


def hide_warnings() -> None:
    """Hide what hydra and torch say about the code of fairseq."""
    for kind, pattern in HIDDEN:
        warnings.filterwarnings("ignore", pattern, kind)
    logging.getLogger("hydra").setLevel(logging.WARNING)


@patched(sys, "excepthook", Tier.NEEDED)
def print_error(original: Any, kind: Any, error: BaseException, traceback: Any) -> None:
    """Print the message of an error instead of its traceback.

    Before the changes of ``Tier.EXTRA``, only errors that this package raised have one. If the
    environment variable CONVS2S_TRACEBACK is set, the traceback is printed as well.
    """
    message = user_message(error) if is_installed(Tier.EXTRA) else _user_error(error)
    if message is None or os.environ.get(TRACEBACK_VARIABLE):
        original(kind, error, traceback)
    if message is not None:
        print(f"error: {message}", file=sys.stderr)


def user_message(error: BaseException) -> str | None:
    """The message to show instead of a traceback, or None if the user cannot correct the error."""
    return _user_error(error) or _wrong_type(error) or _invalid_utf8(error) or _known(error)


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


def _wrong_type(error: BaseException) -> str | None:
    if not isinstance(error, ValidationError) or not error.full_key:
        return None
    option = error.full_key.rpartition(".")[2].replace("_", "-")
    return (
        f"--{option} has a value of another type: {str(error).splitlines()[0]}. If the option is "
        "from a checkpoint, the checkpoint is damaged."
    )


def _invalid_utf8(error: BaseException) -> str | None:
    if not isinstance(error, UnicodeDecodeError) or error.encoding.replace("-", "") != "utf8":
        return None
    return (
        f"The input is not valid UTF-8: byte 0x{error.object[error.start]:02x} at offset "
        f"{error.start} of the block being read ({error.reason}). Convert it "
        "(`iconv -f latin1 -t utf-8`) or drop the invalid bytes (`iconv -c -t utf-8`)."
    )


def _known(error: BaseException) -> str | None:
    # NumPy 2 prints numbers as np.int64(5).
    text = re.sub(r"np\.\w+\((\d+)\)", r"\1", str(error))
    for kind, pattern, message in KNOWN:
        match = re.search(pattern, text)
        if match and isinstance(error, kind):
            return message.format(*match.groups())
    return None
