"""Trained models for ``torch.hub`` and ``from_pretrained``, with fairseq's interface.

    model = from_pretrained("prepared/checkpoints")
    model.translate("Zwei Hunde rennen.", beam=5)

A ``Translator`` reads the folder and translates.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, overload

from fairseq.dataclass.configs import DatasetConfig, GenerationConfig
from fairseq.hub_utils import GeneratorHubInterface
from omegaconf import OmegaConf
from torch import Tensor

from convs2s.common.errors import UserError, check_names
from convs2s.translation.attention import Attention
from convs2s.translation.ensemble import numbers
from convs2s.translation.forced import ScoredPair
from convs2s.translation.options import OF_THE_SEARCH, SearchOptions
from convs2s.translation.pretrained import load_translator
from convs2s.translation.results import Translation
from convs2s.translation.translator import Translator, checked_lines

from . import loading
from .models import PluginModel

# The options of fairseq's generator, and of ``generate`` around it.
OF_THE_GENERATOR = (
    *(field.name for field in fields(GenerationConfig)),
    "verbose",
    "skip_invalid_size_inputs",
    "inference_step_args",
    "prefix_allowed_tokens_fn",
)
# Those that need a data set with translations, or a language model.
OF_THE_COMMAND = ("score_reference", "prefix_size", "lm_path")
# The options of a translator that belong to the task.
OF_THE_TASK = ("autocast_dtype", "int8", "lexicon", "candidates_per_word", "frequent_candidates")


class HubInterface(GeneratorHubInterface):
    """A trained model that translates text, with the methods of fairseq's GeneratorHubInterface.

    Args:
        translator: the models, and what makes tokens from text.
    Attributes:
        translator: the same.
        models: the models, more than one if they are an ensemble.
    """

    def __init__(self, translator: Translator):
        ensemble = translator.ensemble
        options = ensemble.options
        generation = GenerationConfig(
            **{field.name: getattr(options, field.name) for field in fields(SearchOptions)},
            nbest=options.nbest,
            print_alignment="hard" if options.alignment else None,
        )
        dataset = DatasetConfig(max_tokens=options.tokens_of_batch, batch_size=options.batch_size)
        cfg = {"generation": generation, "dataset": dataset, "tokenizer": None, "bpe": None}
        super().__init__(
            OmegaConf.create(
                {name: part and OmegaConf.structured(part) for name, part in cfg.items()}
            ),
            loading.setup_task(
                ensemble.checkpoint,
                ensemble.dictionaries,
                **{name: getattr(options, name) for name in OF_THE_TASK},
            ),
            ensemble.models,
        )
        self.to(ensemble.device)
        # ``encode`` and ``decode`` of the base class use it.
        self.bpe = translator.text
        self.translator = translator

    @overload
    def translate(
        self, sentences: str, beam: int | None = None, nbest: None = None, **options: Any
    ) -> str: ...

    @overload
    def translate(
        self, sentences: Iterable[str], beam: int | None = None, nbest: None = None, **options: Any
    ) -> list[str]: ...

    @overload
    def translate(
        self, sentences: str, beam: int | None = None, *, nbest: int, **options: Any
    ) -> list[str]: ...

    @overload
    def translate(
        self, sentences: Iterable[str], beam: int | None = None, *, nbest: int, **options: Any
    ) -> list[list[str]]: ...

    def translate(
        self,
        sentences: str | Iterable[str],
        beam: int | None = None,
        nbest: int | None = None,
        **options: Any,
    ) -> str | list[str] | list[list[str]]:
        """Translate text.

        Args:
            sentences: a line of text, or several.
            beam: beam size; None for that of the translator (5).
            nbest: number of translations of each line, at most ``beam``; None for only the best
                one.
            options: options of the search, as for ``translations``. With other options of fairseq's
                generator, such as ``sampling=True``, long lines are not split.
        Returns:
            For one line, its best translation (``str``), or with ``nbest`` its best translations,
            the best one first (``list[str]``); for several, a list with that of each line.
        Raises:
            UserError: if an option is unknown or has a value that is not allowed, or if lines were
                skipped.
        """
        lines = [sentences] if isinstance(sentences, str) else list(checked_lines(sentences))
        wanted = 1 if nbest is None else nbest
        check_names(options, {*OF_THE_SEARCH, *OF_THE_GENERATOR}, "a translation")
        if options.keys() <= set(OF_THE_SEARCH):
            found = self.translations(lines, beam, nbest=wanted, **options)
            lists = [[hypothesis.text for hypothesis in line.hypotheses] for line in found]
        else:
            # Checked before anything is generated.
            self._with(beam, nbest=wanted)
            generated = self.generate(list(map(self.encode, lines)), beam, **options)
            if len(generated) < len(lines):
                raise UserError(
                    f"skip_invalid_size_inputs omits {len(lines) - len(generated)} of "
                    f"{len(lines)} lines, which are too long for the model: shorten or remove "
                    "them. Without options of fairseq's generator, long lines are split."
                )
            lists = [
                [self.decode(hypothesis["tokens"]) for hypothesis in of_line[:wanted]]
                for of_line in generated
            ]
        texts = [of_line[0] for of_line in lists] if nbest is None else lists
        return texts[0] if isinstance(sentences, str) else texts

    def translations(
        self, lines: Iterable[str], beam: int | None = None, **options: Any
    ) -> list[Translation]:
        """Translate lines of text, with scores, n-best lists and alignments.

        Args:
            lines: lines of text.
            beam: beam size; None for that of the translator (5).
            options: options of the search, as for ``Translator.with_options``.
        Returns:
            One ``Translation`` for each line.
        Raises:
            UserError: if an option is unknown or has a value that is not allowed.
        """
        return self._with(beam, **options).translate(lines)

    def binarize(self, sentence: str) -> Tensor:
        """The token indices of tokens; the name of a symbol is an unknown word."""
        return numbers(sentence.split(), self.src_dict)

    def _with(self, beam: int | None, **options: Any) -> Translator:
        given = options if beam is None else {**options, "beam": beam}
        return self.translator.with_options(**given)

    def attention(self, source: str, target: str | None = None) -> Attention:
        """The attention between a line and its translation; see ``Translator.attention``."""
        return self.translator.attention(source, target)

    def score(self, sources: Iterable[str], targets: Iterable[str]) -> list[ScoredPair]:
        """Score given translations; see ``Translator.score``."""
        return self.translator.score(sources, targets)

    def sample(
        self, sentences: Any, beam: int | None = None, verbose: bool = False, **options: Any
    ) -> Any:
        """Translate text with fairseq's generator.

        Args:
            sentences: a line of text, or several.
            beam: beam size; None for that of the translator.
            verbose, options: as for ``generate``.
        Raises:
            UserError: as for ``generate``.
        """
        return super().sample(sentences, beam, verbose, **options)

    def generate(
        self, tokenized_sentences: Any, beam: int | None = None, *arguments: Any, **options: Any
    ) -> Any:
        """fairseq's hypotheses for token indices.

        Args:
            tokenized_sentences: token indices, as ``encode`` returns them.
            beam: beam size; None for that of the translator.
            arguments, options: as in fairseq; options of the translator count unless they are
                given here.
        Raises:
            UserError: if an option is not one of fairseq's generator, or needs more than the
                tokens, or if unknown words are to be replaced.
        """
        check_names(options, OF_THE_GENERATOR, "fairseq's generator")
        for name in OF_THE_COMMAND:
            if options.get(name):
                raise UserError(
                    f"{name} is for fairseq-generate, which reads translations and language "
                    "models: omit it here. The method score scores given translations."
                )
        known = self.translator.ensemble.options
        if options.get("replace_unk", known.replace_unk) not in (None, False):
            raise UserError(
                "replace_unk needs the words of the text, but fairseq's generator gets token "
                "indices: use translate or translations without options of the generator, or give "
                "replace_unk=None here."
            )
        beam = known.beam if beam is None else beam
        return super().generate(tokenized_sentences, beam, *arguments, **options)


def from_pretrained(
    path: str | Path,
    checkpoint_file: str | None = None,
    data_name_or_path: str | None = None,
    model: type | None = None,
    **options: Any,
) -> HubInterface:
    """Load a trained model from its folder.

    Args:
        path, checkpoint_file, data_name_or_path, options: as for ``load_translator``.
        model: the class that the model must have; None for any.
    Raises:
        UserError: if a file cannot be read or does not fit, or an option is not allowed.
    """
    translator = load_translator(
        path, checkpoint_file, data_name_or_path, load=loading.load, **options
    )
    for loaded in translator.ensemble.models:
        if model is not None and not isinstance(loaded, model):
            raise UserError(
                f"{path} has a {type(loaded).__name__}, not a {model.__name__}: load it with "
                f"{type(loaded).__name__}.from_pretrained, or with the entry point translator of "
                "torch.hub, which loads models of every family."
            )
    return HubInterface(translator)


@classmethod  # type: ignore[misc]
def _from_pretrained(
    cls: type[PluginModel],
    model_name_or_path: str,
    checkpoint_file: str | None = None,
    data_name_or_path: str | None = None,
    **options: Any,
) -> HubInterface:
    """Load a trained model that translates text.

        model = ConvS2SModel.from_pretrained("prepared/checkpoints")
        model.translate("Zwei Hunde rennen.", beam=5)

    Args:
        model_name_or_path: the folder of a training run, or that of ``convs2s prepare`` above it,
            or a checkpoint.
        checkpoint_file, data_name_or_path, options: see ``convs2s_plugin.hub.from_pretrained``.
    Raises:
        UserError: if a file cannot be read or does not fit, or an option is not allowed.
    """
    path = str(model_name_or_path)
    return from_pretrained(path, checkpoint_file, data_name_or_path, model=cls, **options)


# fairseq's name for it; the models themselves know nothing of translation.
PluginModel.from_pretrained = _from_pretrained
