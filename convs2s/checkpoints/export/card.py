"""The card of an exported model: what it is, how it was made, how good it is, and how to use it."""

import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from ...common.limits import option_name
from ...common.tables import escape_markdown, markdown_table, number
from ...models import FAMILIES, family_of
from ..model_folder import CONFIG, WEIGHTS, Config

# The most characters of a line of the command.
WIDTH = 88
PAPERS = {
    "convs2s": """@inproceedings{gehring-etal-2017,
  title = {Convolutional Sequence to Sequence Learning},
  author = {Gehring, Jonas and Auli, Michael and Grangier, David and Yarats, Denis and
            Dauphin, Yann N.},
  booktitle = {Proceedings of the 34th International Conference on Machine Learning},
  year = {2017},
  url = {https://arxiv.org/abs/1705.03122}
}""",
    "pervasive": """@inproceedings{elbayad-etal-2018,
  title = {Pervasive Attention: {2D} Convolutional Neural Networks for Sequence-to-Sequence
           Prediction},
  author = {Elbayad, Maha and Besacier, Laurent and Verbeek, Jakob},
  booktitle = {Proceedings of the 22nd Conference on Computational Natural Language Learning},
  year = {2018},
  url = {https://arxiv.org/abs/1808.03867}
}""",
    "adl": """@inproceedings{domhan-2018,
  title = {How Much Attention Do You Need? A Granular Analysis of Neural Machine Translation
           Architectures},
  author = {Domhan, Tobias},
  booktitle = {Proceedings of the 56th Annual Meeting of the Association for Computational
               Linguistics},
  year = {2018},
  url = {https://aclanthology.org/P18-1167/}
}""",
}


class Measured(NamedTuple):
    """Translations of a text that the model was not trained on.

    Attributes:
        name: name of the text.
        lines: number of lines.
        search: options of ``convs2s translate``.
        scores: metric -> score in percent, and its signature or settings.
        seconds: duration of the translation; None if the card does not say it.
        processor: the CPU, and the number of its threads.
    """

    name: str
    lines: int
    search: dict[str, Any]
    scores: dict[str, tuple[float, str]]
    seconds: float | None = None
    processor: str | None = None


@dataclass(frozen=True)
class Card:
    """What a card is written from.

    Attributes:
        name: name of the model.
        languages: source and target.
        config: what ``config.json`` says.
        sizes: numbers of entries of both dictionaries.
        parameters: number of parameters.
        megabytes: size of the weights.
        preparation: what ``convs2s prepare`` wrote; None if there is none.
        run: the result of the run of an experiment that trained the model, if one did.
        measured: how it translates; None if that was not measured.
        license: license of the model, as SPDX or the Hub calls it; None if it is not known.
        limits: what the model is not meant for; None if there is nothing to add.
    """

    name: str
    languages: tuple[str, str]
    config: Config
    sizes: tuple[int, int]
    parameters: int
    megabytes: float
    preparation: Mapping[str, Any] | None = None
    run: Mapping[str, Any] | None = None
    measured: Measured | None = None
    license: str | None = None
    limits: str | None = None

    def text(self) -> str:
        """The card in Markdown, with the data about the model that the Hub reads above it."""
        parts = [
            self._front(),
            f"# {escape_markdown(self.name)}",
            f"A model that translates from `{self.languages[0]}` to `{self.languages[1]}`, of "
            f"`{self.config.model['_name']}`, exported by convs2s-plugin "
            f"{self.config.version}.",
            *self._use(),
            *self._quality(),
            *self._model(),
            *self._data(),
            *self._training(),
            *self._rest(),
        ]
        return "\n\n".join(parts) + "\n"

    def _front(self) -> str:
        lines = ["library_name: convs2s-plugin", "pipeline_tag: translation"]
        # As JSON, so that `no` stays the name of a language.
        lines.append(f"language: {json.dumps(list(dict.fromkeys(self.languages)))}")
        if self.license is not None:
            lines.append(f"license: {json.dumps(self.license)}")
        return "\n".join(["---", *lines, "---"])

    def _use(self) -> Iterable[str]:
        options = _shell(self.measured.search if self.measured else {})
        words = " ".join(["convs2s translate --path FOLDER", *options, "--input FILE"])
        yield "## Use"
        yield f"FOLDER is the folder of this file.\n\n```sh\n{words}\n```"
        yield (
            "```python\nfrom convs2s.translation.pretrained import load_translator\n\n"
            'translator = load_translator("FOLDER")\n'
            'print(translator.translate(["..."])[0].text)\n```'
        )
        if self.preparation is None:
            yield "The text must be tokens of the dictionaries, separated by spaces."

    def _quality(self) -> Iterable[str]:
        has_speed = self.measured is None or self.measured.seconds is not None
        yield "## Quality and speed" if has_speed else "## Quality"
        if self.measured is None:
            yield "Not measured."
            return
        found = self.measured
        metrics = [*found.scores]
        titles = ["text", "lines", "search", *metrics]
        search = ", ".join(f"{name} {value:g}" for name, value in found.search.items())
        row = [found.name, f"{found.lines:,}", search]
        row += [number(found.scores[name][0]) for name in metrics]
        signatures = ", ".join(f"{name} `{found.scores[name][1]}`" for name in metrics)
        about = f"Signatures: {signatures}."
        if found.seconds is not None:
            titles.append("sentences/s")
            row.append(number(found.lines / found.seconds, 0))
            about += f" Speed: {found.processor}."
        yield markdown_table(titles, [row])
        yield about

    def _model(self) -> Iterable[str]:
        rows = [
            ["architecture", f"`{self.config.model['_name']}`"],
            ["parameters", f"{self.parameters:,}"],
            ["weights", f"{self.megabytes:.1f} MB in `{WEIGHTS}`"],
            ["entries of the dictionaries", " and ".join(f"{size:,}" for size in self.sizes)],
            [
                "longest sentence",
                " and ".join(
                    f"{self.config.model[f'max_{side}_positions']:,}"
                    for side in ("source", "target")
                )
                + " tokens",
            ],
        ]
        for side in ("encoder", "decoder"):
            if definition := self.config.model.get(f"{side}_adl"):
                # A row is one line; a definition may have several.
                one_line = " ".join(definition.split()).replace("|", r"\|")
                rows.append([side, f"`{one_line}`"])
        yield "## Model"
        yield markdown_table(["", ""], rows)
        yield f"`{CONFIG}` has all options."

    def _data(self) -> Iterable[str]:
        if self.preparation is None:
            return
        pairs, tokens = (self.preparation.get(name) or {} for name in ("pairs", "tokens"))
        rows = [
            [name, f"{count:,}", *(number(each, 0) for each in tokens.get(name, (None, None)))]
            for name, count in pairs.items()
        ]
        files = (self.preparation.get("settings") or {}).get("--train") or []
        names = [f"`{PurePath(str(file['path'])).name}`" for file in files]
        subwords = self.preparation["subwords"]
        size = f" of size {subwords['size']:,}" if subwords.get("size") else ""
        case = ", in lower case" if self.preparation.get("lowercase") else ""
        yield "## Data"
        if rows:
            yield markdown_table(["text", "pairs", "source tokens", "target tokens"], rows)
        if names:
            yield f"Training text: {', '.join(names)}."
        yield (
            f"Tokenizer: {self.preparation['tokenizer']}{case}. "
            f"Sub-words: {subwords['method']}{size}."
        )

    def _training(self) -> Iterable[str]:
        yield "## Training"
        if self.config.training:
            yield f"{self.config.updates:,} updates:"
            yield f"```sh\n{training_command(self.config)}\n```"
        else:
            yield f"{self.config.updates:,} updates; the model does not say with which options."
        if self.run is None:
            return
        tried = _shell(self.run["trial_options"])
        searches = [each.get("options", {}) for each in self.run["searches"]]
        if tried:
            yield f"Of the trials, `{' '.join(tried)}` was best on the validation text."
        if len(searches) > 1:
            shown = ", ".join(f"`{' '.join(_shell(each))}`" for each in searches)
            yield f"Options of the search that were tried on the validation text: {shown}."

    def _rest(self) -> Iterable[str]:
        yield "## Limits"
        yield (
            "The model translates in one direction, and expects lines of one sentence that are "
            "like its training text. It translates other text worse, without a warning. Errors and "
            "biases of the training text can reappear in translations."
        )
        if self.limits:
            yield escape_markdown(self.limits)
        yield "## License"
        given = "Not stated: ask who made the model, and check the license of its training text."
        yield escape_markdown(self.license) if self.license else given
        yield "## Citation"
        family = family_of(self.config.model["_name"])
        assert family is not None
        yield f"```bibtex\n{PAPERS[family]}\n```"


def training_command(config: Config) -> str:
    """A command of fairseq-train that trains such a model.

    Args:
        config: what ``config.json`` says.
    """
    arch, task = config.model["_name"], config.task["_name"]
    family = family_of(arch)
    assert family is not None
    known = FAMILIES[family].architectures().get(arch)
    options = FAMILIES[family].network().options_class
    usual = asdict(options(**(known.options if known else {})))
    changed = {
        name: value
        for name, value in config.model.items()
        if name in usual and value is not None and value != usual[name]
    }
    words = ["fairseq-train DATA", '--user-dir "$(convs2s path)"', f"--task {shlex.quote(task)}"]
    words += [f"--arch {shlex.quote(arch)}", *_shell(changed), *_shell(config.training)]
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > WIDTH:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return " \\\n".join(lines)


def _shell(options: Mapping[str, Any]) -> list[str]:
    """Options of a program as words of a shell, each with its value."""
    words = []
    for name, value in options.items():
        option = option_name(name)
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            text = ",".join(map(_plain, value)) if isinstance(value, list) else _plain(value)
            sign = "=" if text.startswith("-") else " "
            words.append(f"{option}{sign}{shlex.quote(text)}")
    return words


def _plain(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)
