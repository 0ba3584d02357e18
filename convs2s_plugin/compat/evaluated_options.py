"""Options that fairseq evaluates as Python code are parsed instead.

fairseq calls ``eval`` on options such as fconv's ``encoder_layers``, which may come from a
checkpoint. Here, ``eval`` in its modules becomes a parser of numbers, text, lists, tuples and
dictionaries, with + and *, which covers all values that fairseq documents.
"""

import sys
from typing import Any

from convs2s.common.literals import LiteralParser
from convs2s.common.tokens import END

from .patches import Tier, step

# The modules of fairseq that evaluate options, without "fairseq.".
MODULES = (
    "utils",
    "criterions.ctc",
    "model_parallel.models.pipeline_parallel_transformer.model",
    "models.fconv",
    "models.fconv_lm",
    "models.fconv_self_att",
    "models.hubert.hubert",
    "models.lightconv_lm",
    "models.multires_hubert.multires_hubert",
    "models.transformer_lm",
    "models.speech_to_text.s2t_wav_transformer",
    "data.audio.raw_audio_dataset",
    "models.wav2vec.wav2vec",
    "models.wav2vec.wav2vec2",
    "optim.adafactor",
    "optim.adam",
    "optim.adamax",
    "optim.cpu_adam",
    "optim.fused_lamb",
)


@step(Tier.EXTRA)
def parse_options() -> None:
    """Replace ``eval`` in the modules of fairseq that evaluate options."""
    for name in MODULES:
        module = sys.modules.get(f"fairseq.{name}")
        if module is not None:
            module.eval = parse_value  # type: ignore[attr-defined]


def parse_value(text: str, *scopes: Any) -> Any:
    """The value of a Python expression of literals, + and *.

    Args:
        text: the expression, such as ``[(512, 3)] * 9 + [(1024, 1)]``.
        scopes: further arguments of ``eval``, not used.
    Raises:
        TypeError: if it is not text, as with ``eval``; fairseq relies on this.
        TextError: if it is anything other than such an expression, or too large.
    """
    if not isinstance(text, str):
        raise TypeError(f"expected text, not {type(text).__name__}")
    parser = LiteralParser(text, "An option of a fairseq model, which is not evaluated but parsed")
    values, comma = [parser.literal()], False
    # A tuple may have no parentheses, as in ``--adaptive-softmax-cutoff 5000,10000``.
    while parser.accept(","):
        comma = True
        if parser.token != END:
            values.append(parser.literal())
    parser.expect_end()
    return tuple(values) if comma else values[0]
