"""From text to token indices and back, as the preparation of a model says, for transformers."""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizer
from transformers.tokenization_utils_base import AddedToken

from ..checkpoints.dictionaries import DICTIONARIES, SIDES, check_dictionaries
from ..checkpoints.model_folder import CONFIG, WEIGHTS, read_config
from ..common.errors import UserError
from ..text.preparation import FILE_NAME, Preparation
from ..text.subwords import Tokenized
from ..text.vocabulary import Vocabulary
from .config import OF_THE_HUB, folder_of

SETTINGS = "tokenizer_config.json"


class Convs2sTokenizer(PreTrainedTokenizer):
    """Source text to indices; indices of the target language to text.

    ``text_target`` in a call is text of the target language. Text is read as tokens separated by
    spaces if the folder has no ``preparation.yaml``.

    Args:
        folder: the folder that ``convs2s export`` wrote.
        options: those of transformers, such as ``model_max_length``.
    Raises:
        UserError: if a file is missing or damaged.
    """

    model_input_names = ["input_ids", "attention_mask"]

    def __init__(self, folder: str | Path, **options: Any):
        self.folder = Path(folder)
        config = read_config(self.folder / CONFIG)
        self.languages = config.task["source_lang"], config.task["target_lang"]
        self.vocabularies = tuple(
            Vocabulary.load(self.folder / f"dict.{language}.txt") for language in self.languages
        )
        words = [vocabulary.symbols for vocabulary in self.vocabularies]
        for side, of_side in zip(SIDES, words):
            if config.dictionaries.get(side, {}).get("tokens") != len(of_side):
                raise UserError(f"{self.folder} has a {side} dictionary of another model.")
        state = {DICTIONARIES: config.dictionaries}
        check_dictionaries(state, words, str(self.folder / WEIGHTS))
        has_preparation = (self.folder / FILE_NAME).is_file()
        self.preparation = Preparation.read(self.folder) if has_preparation else None
        self._in_target = False
        source = self.vocabularies[0]
        symbols = {"bos": source.bos, "pad": source.pad, "eos": source.eos, "unk": source.unk}
        special = {f"{name}_token": source[index()] for name, index in symbols.items()}
        # Otherwise, transformers gives them new indices.
        self._added_tokens_decoder = {
            index(): AddedToken(source[index()], special=True) for index in symbols.values()
        }
        options.setdefault("model_max_length", config.model["max_source_positions"])
        # In text, </s> is text.
        super().__init__(**{**special, "split_special_tokens": True, **options})

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | Path, *args: Any, **options: Any
    ) -> "Convs2sTokenizer":
        """Read the folder that ``convs2s export`` wrote, from this machine or from the Hub.

        Args:
            pretrained_model_name_or_path: the folder, or its name on the Hub.
            options: those of the Hub, such as ``revision`` and ``token``, and of the tokenizer.
        Raises:
            UserError: if a file is missing or damaged.
        """
        folder = folder_of(pretrained_model_name_or_path, options)
        return cls(folder, **{name: options[name] for name in options.keys() - {*OF_THE_HUB}})

    def save_pretrained(self, save_directory: str | Path, **_: Any) -> tuple[str, ...]:
        """Copy the dictionaries and the preparation."""
        out = Path(save_directory)
        out.mkdir(parents=True, exist_ok=True)
        names = [f"dict.{language}.txt" for language in self.languages]
        if self.preparation is not None:
            files = self.preparation.content["subwords"].get("files") or {}
            names += [FILE_NAME, *files.values()]
        if not (out / CONFIG).exists():
            names.append(CONFIG)
        for name in dict.fromkeys(names):
            if out.resolve() != self.folder.resolve():
                (out / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(self.folder / name, out / name)
        settings = {"tokenizer_class": type(self).__name__}
        (out / SETTINGS).write_text(json.dumps(settings) + "\n", encoding="utf-8")
        return (*(str(out / name) for name in names), str(out / SETTINGS))

    @property
    def vocab_size(self) -> int:
        """The number of source tokens."""
        return len(self.vocabularies[0])

    def get_vocab(self) -> dict[str, int]:
        """Source token -> index."""
        return dict(self.vocabularies[0].indices)

    def _switch_to_input_mode(self) -> None:
        self._in_target = False

    def _switch_to_target_mode(self) -> None:
        self._in_target = True

    def _tokenize(self, text: str, **_: Any) -> list[str]:
        if self.preparation is None:
            tokens = Tokenized().encode(text).split()
        else:
            side = self.preparation.target if self._in_target else self.preparation.source
            tokens = side.encode(text).split()
        # Words with the names of symbols are unknown, as in `convs2s translate`.
        symbols = self.vocabularies[self._in_target]
        special = {symbols.bos(), symbols.pad(), symbols.eos()}
        unknown = symbols[symbols.unk()]
        return [unknown if symbols.index(token) in special else token for token in tokens]

    def _convert_token_to_id(self, token: str) -> int:
        return int(self.vocabularies[self._in_target].index(token))

    def _convert_id_to_token(self, index: int) -> str:
        return str(self.vocabularies[1][index])

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        """The text of target tokens."""
        line = " ".join(tokens)
        return (
            Tokenized().decode(line) if self.preparation is None else self.preparation.decode(line)
        )

    def build_inputs_with_special_tokens(
        self, token_ids_0: list[int], token_ids_1: list[int] | None = None
    ) -> list[int]:
        """The tokens of a line, and the end of the sentence."""
        return [*token_ids_0, *(token_ids_1 or []), self.vocabularies[0].eos()]

    def get_special_tokens_mask(
        self,
        token_ids_0: list[int],
        token_ids_1: list[int] | None = None,
        already_has_special_tokens: bool = False,
    ) -> list[int]:
        """1 at special tokens, such as the end of the sentence, and 0 at the tokens of a line.

        Args:
            token_ids_0, token_ids_1: as for ``build_inputs_with_special_tokens``.
            already_has_special_tokens: whether the end of the sentence is there already (False).
        """
        if already_has_special_tokens:
            mask: list[int] = super().get_special_tokens_mask(token_ids_0, token_ids_1, True)
            return mask
        return [0] * len([*token_ids_0, *(token_ids_1 or [])]) + [1]
