"""One or several models that translate batches of tokens."""

import copy
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ..checkpoints.networks import read_checkpoint
from ..common.errors import UserError
from ..models.options import checked_value
from ..nn.int8 import has_int8
from ..text.lexicon.files import read_translations
from .alignment import aligned_sources, hard_alignment
from .compiled import has_graphs, with_graphs
from .ctranslate2_engine import CTranslate2Engine, check_setting
from .decoding import Model
from .directions import search
from .loading import Places, find_dictionaries, load_model
from .options import CTRANSLATE2, EnsembleOptions
from .precision import Precision
from .results import Hypothesis
from .search import Finished, Symbols
from .shortlist import load_shortlist, saved_shortlist

# Smaller batches, in source tokens, are not worth another process.
SMALL_BATCH = 2000


class Ensemble:
    """Models that translate together: the mean of their probabilities (see ``directions``).

    Threads may share an ensemble: nothing in it changes.

    Args:
        paths: checkpoints of models with the same dictionaries.
        options: how to translate.
        places: where the dictionaries may be.
        load: builds models, as ``loading.load_model`` does.
    Attributes:
        checkpoint: the first checkpoint.
        dictionaries: where the dictionaries are.
        models: the models, prepared for generation.
        search_models: the same, as the search needs them.
        source, target: the vocabularies.
        max_source_tokens: largest number of tokens in a source sentence, without its end.
        max_target_tokens: the same for a translation.
        shortlist: the target tokens that a batch may need; None for all.
        engine: what translates in place of ``search_models``, or None. ``search_models`` still
            score given translations, in single precision.
    Raises:
        UserError: if a checkpoint or the dictionaries cannot be read or do not fit, or if an
            option has a value that is not allowed.
    """

    def __init__(
        self,
        paths: Sequence[str],
        options: EnsembleOptions,
        places: Places,
        load: Callable[..., Model] = load_model,
    ):
        options.check()
        self.options = options
        device = _device(options.device)
        if options.engine == CTRANSLATE2:
            check_setting(paths, device)
        first, *others = (read_checkpoint(path) for path in paths)
        self.checkpoint = first
        self.dictionaries = find_dictionaries(first, places)
        source, target = self.dictionaries.languages
        for checkpoint in others:
            if None not in checkpoint.languages and checkpoint.languages != (source, target):
                other = " to ".join(map(str, checkpoint.languages))
                raise UserError(
                    f"{checkpoint.path} translates from {other}, but {first.path} from {source} "
                    f"to {target}: an ensemble needs models of the same languages."
                )
        self.source, self.target = self.dictionaries.vocabularies
        self.shortlist = load_shortlist(options, self.source, self.target)
        if self.shortlist is None:
            states = {checkpoint.path: checkpoint.state for checkpoint in (first, *others)}
            self.shortlist = saved_shortlist(states, self.source, self.target)
        if self.shortlist is not None and options.engine == CTRANSLATE2:
            raise UserError(
                f"{first.path} has shortlists, with which --engine ctranslate2 cannot translate: "
                "give the model that it is a copy of, or omit --engine."
            )
        self._translations: Mapping[str, str] = {}
        if options.replace_unk is not None and (options.replace_unk or options.lexicon):
            self._translations = read_translations(str(options.replace_unk or options.lexicon))
        self.search_models = [
            load(checkpoint, self.dictionaries, device) for checkpoint in (first, *others)
        ]
        self.models = [model.module for model in self.search_models]
        self.engine: CTranslate2Engine | None = None
        if options.engine == CTRANSLATE2:
            vocabularies = self.dictionaries.vocabularies
            self.engine = CTranslate2Engine(self.models[0], first, vocabularies, options)
            self.precision = Precision("none")
        else:
            self.precision = Precision(options.autocast_dtype, options.int8, emulate=False)
        for number, model in enumerate(self.search_models):
            path = (first, *others)[number].path
            may_be_compiled = not self.engine and device.type == "cpu"
            if may_be_compiled and has_int8(model.module) and not options.int8 and has_graphs(path):
                # Graphs have the weights in single precision.
                model.module.dequantize_()
            self.precision.prepare_(model.module, model.output_weights())
            if may_be_compiled and self.precision.is_single(model.module):
                self.search_models[number] = with_graphs(model, path)
        limits = [model.max_source_length for model in self.search_models]
        if (of_task := first.task.get("max_source_positions")) is not None:
            limits.append(checked_value("max_source_positions", int, of_task))
        self.max_source_tokens = max(1, min(limits) - 1)
        self.max_target_tokens = min(model.max_target_length for model in self.search_models) - 1

    @property
    def device(self) -> torch.device:
        """The device of the models."""
        device: torch.device = next(self.models[0].parameters()).device
        return device

    def with_options(self, **options: object) -> "Ensemble":
        """The same models with other options of the search.

        Args:
            options: see ``EnsembleOptions.for_search``.
        Raises:
            UserError: if an option is not one of the search, or has a value that is not allowed.
        """
        changed = copy.copy(self)
        changed.options = self.options.for_search(options)
        return changed

    def autocast(self) -> AbstractContextManager[None]:
        """The context manager for the forward passes of the models."""
        return self.precision.autocast(self.models[0])

    def batches(self, lengths: Sequence[int], workers: int = 1) -> list[list[int]]:
        """Make batches of similar size and sentences of similar length, the longest ones first.

        Args:
            lengths: the number of tokens of each sentence, without its end.
            workers: the number of processes that share the batches (1).
        Returns:
            For each batch, the positions of its sentences in ``lengths``.
        """
        with_ends = [length + 1 for length in lengths]
        order = sorted(range(len(lengths)), key=with_ends.__getitem__)

        def of_size(max_tokens: int) -> list[list[int]]:
            return list(batches_by_size(order, with_ends, max_tokens, self.options.batch_size))

        largest = self.options.tokens_of_batch
        number = len(of_size(largest))
        # The same number for each process, unless there is too little text.
        shared = -(-number // workers) * workers
        number = max(number, min(shared, sum(with_ends) // SMALL_BATCH))
        size = bisect_left(range(largest), True, key=lambda size: len(of_size(size)) <= number)
        return of_size(size)[::-1]

    def translate(self, sentences: Sequence[Sequence[str]]) -> list[list[Hypothesis]]:
        """Translate a batch.

        Args:
            sentences: the source tokens of each sentence, at least one.
        Returns:
            The n best translations of each sentence, the best one first.
        Raises:
            UserError: if attention is needed, but the models have none.
        """
        if not sentences:
            return []
        tokens = [numbers(words, self.source) for words in sentences]
        if self.engine is not None:
            found = self.engine.search(tokens, self.options)
        else:
            found = self._search(tokens)
        return [
            [
                self._hypothesis(hypothesis, tokens[i], sentences[i])
                for hypothesis in found[i][: self.options.nbest]
            ]
            for i in range(len(tokens))
        ]

    def _search(self, tokens: Sequence[Tensor]) -> list[list[Finished]]:
        """Search for the translations of sentences in any order."""
        # Some encoders need the longest sentence first.
        order = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
        source = padded_before([tokens[i] for i in order], self.source.pad()).to(self.device)
        shortlist = None
        if self.shortlist is not None:
            start = source.new_tensor(self.target.eos())
            shortlist = self.shortlist(source, start, min_size=2 * self.options.beam + 1)
        with self.autocast():
            found = search(
                self.search_models,
                source,
                self.target,
                self.options,
                shortlist=shortlist,
                need_weights=self._need_weights,
                nbest=self.options.nbest,
            )
        by_number = dict(zip(order, found))
        return [by_number[i] for i in range(len(tokens))]

    @property
    def _need_weights(self) -> bool:
        return self.options.alignment or self.options.replace_unk is not None

    def _hypothesis(self, found: Finished, source: Tensor, words: Sequence[str]) -> Hypothesis:
        """A hypothesis in words.

        Args:
            found: the hypothesis in token indices.
            source: S source token indices, without padding.
            words: the S - 1 source tokens as text.
        """
        target = found.tokens.cpu()
        alignment, replaced = None, {}
        if self._need_weights:
            if found.attention is None:
                raise UserError(
                    "--alignment and --replace-unk need attention weights, but the model returns "
                    "none."
                )
            # The batch has padding before a sentence.
            attention = found.attention[:, -len(source) :].cpu()
            special = self.source.pad(), self.source.eos()
            if self.options.alignment:
                alignment = hard_alignment(attention, source, target, *special)
            if self.options.replace_unk is not None:
                aligned = aligned_sources(target, source, attention, self.target.unk(), *special)
                replaced = {position: words[place] for position, place in aligned.items()}
        dropped = self.target.bos(), self.target.eos()
        tokens = [
            self._translations.get(replaced[i], replaced[i])
            if i in replaced
            else self.target[token]
            for i, token in enumerate(target.tolist())
            if token not in dropped
        ]
        token_scores = (found.token_scores.cpu() / math.log(2)).tolist()
        score = found.score / math.log(2)
        return Hypothesis("", score, tokens, token_scores, alignment, found.is_cut_off)


def batches_by_size(
    order: Sequence[int], lengths: Sequence[int], max_tokens: int, max_sentences: int | None = None
) -> Iterator[list[int]]:
    """Group sentences, as many as fit into a batch.

    Args:
        order: numbers of sentences; neighbors go into one batch.
        lengths: the number of tokens of each sentence.
        max_tokens: largest number of tokens in a batch, with padding; a longer sentence is a batch
            by itself.
        max_sentences: largest number of sentences in a batch; None for any number.
    """
    batch: list[int] = []
    longest = 0
    for number in order:
        longest = max(longest, lengths[number])
        size = len(batch) + 1
        if batch and (size * longest > max_tokens or size > (max_sentences or size)):
            yield batch
            batch, longest = [], lengths[number]
        batch.append(number)
    if batch:
        yield batch


def padded_before(sentences: Sequence[Tensor], pad: int) -> Tensor:
    """Sentences as rows, B x S, with padding before the shorter ones."""
    return pad_sequence([tokens.flip(0) for tokens in sentences], True, pad).flip(1)


def numbers(words: Sequence[str], symbols: Symbols) -> Tensor:
    """The token indices of words, and the end of the sentence.

    A word of the text with the name of a symbol, other than that of unknown words, is unknown.
    """
    special = {symbols.bos(), symbols.pad(), symbols.eos()}
    found = [symbols.unk() if number in special else number for number in map(symbols.index, words)]
    return torch.tensor([*found, symbols.eos()])


def _device(name: str | None) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"--device {name} cannot be used: {reason}") from error
    return device
