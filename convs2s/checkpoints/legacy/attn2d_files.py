"""What the 2018 code for pervasive attention writes beside weights: options and vocabularies."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...common.data_files import read_yaml
from ...common.errors import UserError
from ...common.names import check_name
from ...common.plain_files import open_plain
from ...common.text_files import read_lines
from ...text.vocabulary import OVERWRITE, Vocabulary
from . import inert_pickle

# Option -> the values that describe a network of this package; the first is the default.
ALLOWED: dict[str, tuple[Any, ...]] = {
    "model": ("convs2s2D", "convs2s2D-parallel", "pervasive", "pervasive-parallel"),
    "network.type": ("densenet", "efficient-densenet"),
    "network.norm": ("batch",),
    "network.merge_mode": ("concat",),
    "encoder.type": ("lookup", "none"),
    "encoder.encode_position": (0,),
    "encoder.encode_length": (0,),
    "decoder.type": ("lookup", "none"),
    "decoder.encode_position": (0,),
    "decoder.encode_length": (0,),
    "aggregator.mode": ("max", "truncated-max", "truncated-mean", "max-attention"),
    "aggregator.num_fc": (1,),
    "aggregator.mapping": ("linear",),
}
# The same for aggregator.mode max-attention.
OF_ATTENTION: dict[str, tuple[Any, ...]] = {
    "aggregator.nonlin": ("none", None),
    "aggregator.first_aggregator": ("max", "truncated-max", "skip"),
}
AVERAGE = (
    " The mean of this code is the sum over the source divided by its length, that of the paper "
    "divides by the square root of the length (truncated-mean)."
)

# The 2018 code's special tokens in the order of fairseq's, which are <s>, <pad>, </s>, <unk>.
SPECIAL = ("<BOS>", "<PAD>", "<EOS>", "<UNK>")
# The order in which the 2018 code prepends those that a text file lacks.
INSERTED = ("<BOS>", "<EOS>", "<UNK>", "<PAD>")
PICKLE = b"\x80"


class Params:
    """The options of a training run (``params.json``).

    Args:
        content: nested dictionaries.
        path: their file, for errors.
    """

    def __init__(self, content: dict[str, Any], path: str):
        self.content, self.path = content, path

    @classmethod
    def read(cls, path: str) -> "Params":
        """Read ``params.json``, or a YAML file of options.

        Raises:
            UserError: if it cannot be read.
        """
        if not Path(path).is_file():
            raise UserError(
                f"There is no file of options {path}: the 2018 code writes params.json beside its "
                "checkpoints; give it with --params."
            )
        content = read_yaml(path)
        if not isinstance(content, dict) or not isinstance(content.get("network"), dict):
            raise UserError(f"{path} has no options of a network of the 2018 code.")
        return cls(content, path)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an option such as ``network.kernel``."""
        value: Any = self.content
        for key in name.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        return default if value is None else value

    def check(self) -> None:
        """Check that the options describe a network of this package.

        Raises:
            UserError: if they do not.
        """
        with_attention = self.get("aggregator.mode") == "max-attention"
        for name, allowed in (ALLOWED | OF_ATTENTION if with_attention else ALLOWED).items():
            value = self.get(name, allowed[0])
            if value not in allowed:
                shown = ", ".join(str(one) for one in allowed if one is not None)
                why = AVERAGE if (name, value) == ("aggregator.mode", "mean") else ""
                raise UserError(
                    f"{self.path}: {name} is {value}, which describes a network that this package "
                    f"does not have; it has {shown}.{why}"
                )

    def aggregator(self) -> tuple[str, float]:
        """``--aggregator`` and ``--attention-exponent``.

        Where the paper has a sum over the source, the 2018 code has a mean; the length that it
        divides by is another power of the source length.
        """
        mode = self.get("aggregator.mode", "max")
        if mode == "max-attention":
            exponent = -0.5 if self.get("aggregator.scale_ctx", 1) else -1.0
            skips = self.get("aggregator.first_aggregator") == "skip"
            return "attn" if skips else "max+attn", exponent
        return "avg" if mode == "truncated-mean" else "max", 0.5

    def training_options(self) -> dict[str, Any]:
        """Dropout and the languages."""
        dropout = {
            "embedding_dropout": "decoder.input_dropout",
            "convolution_dropout": "network.conv_dropout",
            "prediction_dropout": "decoder.prediction_dropout",
        }
        options = {option: float(self.get(name, 0.0)) for option, name in dropout.items()}
        return {"dropout": options["convolution_dropout"], **options, **self.languages()}

    def languages(self) -> dict[str, str]:
        """``source_lang`` and ``target_lang``.

        Raises:
            UserError: if there are none.
        """
        found = {"source_lang": self.get("data.src"), "target_lang": self.get("data.trg")}
        if not all(isinstance(one, str) and one for one in found.values()):
            raise UserError(f"{self.path} does not name the languages (data.src and data.trg).")
        for side, language in found.items():
            check_name(language, f"{self.path}: the {side.replace('_lang', ' language')}")
        return found


def read_vocabulary(path: str) -> list[str]:
    """The tokens of a vocabulary, in the order of their embeddings.

    Args:
        path: the file ``LANGUAGE.infos`` that the code's ``preprocess.py`` wrote, or the text file
            ``vocab.LANGUAGE`` that it read or wrote, with one token per line. Nothing in it is
            executed.
    Raises:
        UserError: if it cannot be read, or has no special tokens.
    """
    try:
        with open_plain(path) as file:
            is_pickle = file.read(1) == PICKLE
            file.seek(0)
            content = inert_pickle.load(file) if is_pickle else None
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path} is not a vocabulary of the 2018 code: it is damaged.") from error
    if not is_pickle:
        tokens = [line.strip() for line in read_lines(path)]
        for token in INSERTED:
            if token not in tokens:
                tokens.insert(0, token)
        return tokens
    tokens = list(_tokens(content, path))
    missing = [token for token in SPECIAL if token not in tokens]
    if missing:
        raise UserError(f"{path} has no {', '.join(missing)}, which the 2018 code adds.")
    return tokens


def _tokens(content: Any, path: str) -> Iterator[str]:
    """The tokens in ``itow``, which maps indices to them."""
    words = content.get("itow") if isinstance(content, dict) else None
    if not isinstance(words, dict):
        raise UserError(f"{path} is not a vocabulary of the 2018 code: it has no entry itow.")
    for index in range(len(words)):
        word = words.get(index)
        if not isinstance(word, str):
            raise UserError(f"{path} has no token {index} of {len(words):,} in its entry itow.")
        yield word


def dictionary_rows(tokens: Sequence[str]) -> list[int]:
    """The index in the vocabulary of each token of fairseq's dictionary."""
    # As in the 2018 code, the last of several equal tokens counts.
    indices = {token: index for index, token in enumerate(tokens)}
    special = [indices[token] for token in SPECIAL]
    return [*special, *(index for index in range(len(tokens)) if index not in special)]


def dictionary_text(tokens: Sequence[str]) -> str:
    """The file ``dict.LANGUAGE.txt``; the vocabulary has no counts, so each is 1."""
    seen = Vocabulary()
    lines = []
    for index in dictionary_rows(tokens)[len(SPECIAL) :]:
        repeated = f" {OVERWRITE}" if tokens[index] in seen else ""
        seen.add_symbol(tokens[index])
        lines.append(f"{tokens[index]} 1{repeated}\n")
    return "".join(lines)
