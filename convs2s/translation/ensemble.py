"""One or several models that translate batches of tokens."""

import argparse
import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from fairseq import utils

from ..common.errors import UserError
from .loading import Places, find_dictionaries, load_model, read_checkpoint, setup_task
from .options import EnsembleOptions
from .results import Candidate


class Ensemble:
    """Models that translate together: the mean of their probabilities.

    Args:
        paths: checkpoints of models with the same dictionaries.
        options: how to translate.
        places: where the dictionaries may be.
    Attributes:
        task: the task, which has the dictionaries.
        models: the models, prepared for generation.
        languages: the source and the target language.
        data: the folder of the dictionaries.
        max_source_tokens: largest number of tokens in a source sentence, without its end.
    Raises:
        UserError: if a checkpoint or the dictionaries cannot be read or do not fit, or if an
            option has a value that is not allowed.
    """

    def __init__(self, paths: Sequence[str], options: EnsembleOptions, places: Places):
        options.check()
        self.options = options
        device = _device(options.device)
        first, *others = (read_checkpoint(path) for path in paths)
        dictionaries = find_dictionaries(first, places)
        self.data, source, target = dictionaries
        self.languages = source, target
        for checkpoint in others:
            if None not in checkpoint.languages and checkpoint.languages != self.languages:
                other = " to ".join(map(str, checkpoint.languages))
                raise UserError(
                    f"{checkpoint.path} translates from {other}, but {first.path} from {source} "
                    f"to {target}: an ensemble needs models of the same languages."
                )
        self.task = setup_task(first, dictionaries, options)
        self.models = [
            load_model(checkpoint, self.task, device, options.beam)
            for checkpoint in (first, *others)
        ]
        self._generator = self.task.build_generator(self.models, _generation(options))
        limits = utils.resolve_max_positions(
            self.task.max_positions(), *(model.max_positions() for model in self.models)
        )
        self.max_source_tokens = max(1, int(limits[0]) - 1)

    @property
    def aligns(self) -> bool:
        """Whether translations have alignments."""
        return self.options.alignment

    @property
    def device(self) -> torch.device:
        """The device of the models."""
        device: torch.device = next(self.models[0].parameters()).device
        return device

    def with_options(self, **options: object) -> "Ensemble":
        """The same models with other options of the search.

        Only the ensemble that was made last may translate: its options are those of the task.

        Args:
            options: see ``EnsembleOptions.for_search``.
        Raises:
            UserError: if an option is not one of the search, or has a value that is not allowed.
        """
        changed = copy.copy(self)
        changed.options = self.options.for_search(options)
        changed._generator = self.task.build_generator(self.models, _generation(changed.options))
        return changed

    def batches(self, lengths: Sequence[int]) -> list[list[int]]:
        """Make batches of sentences of similar length, those of the longest sentences first.

        Args:
            lengths: the number of tokens of each sentence, without its end.
        Returns:
            For each batch, the positions of its sentences in ``lengths``.
        """
        if not lengths:
            return []
        with_ends = np.array(lengths) + 1
        dataset = self.task.build_dataset_for_inference([None] * len(lengths), with_ends)
        order = np.argsort(with_ends, kind="stable")
        batches = dataset.batch_by_size(
            order,
            max_tokens=max(self.options.max_tokens, int(with_ends.max())),
            max_sentences=self.options.batch_size,
        )
        return [[int(number) for number in batch] for batch in reversed(batches)]

    def rescore(self, token_scores: list[float]) -> float:
        """The score of a translation with these token scores."""
        return self.options.score(token_scores)

    def translate(self, sentences: Sequence[Sequence[str]]) -> list[list[Candidate]]:
        """Translate a batch.

        Args:
            sentences: the source tokens of each sentence, at least one.
        Returns:
            The n best translations of each sentence, the best one first.
        """
        if not sentences:
            return []
        tokens, lengths = self.task.get_interactive_tokens_and_lengths(
            [" ".join(sentence) for sentence in sentences], lambda line: line
        )
        dataset = self.task.build_dataset_for_inference(tokens, lengths)
        batch = dataset.collater([dataset[i] for i in range(len(tokens))])
        sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), batch)
        found = self.task.inference_step(self._generator, self.models, sample)
        # The dataset sorts the sentences of a batch by length.
        by_number = dict(zip(batch["id"].tolist(), found))
        return [
            [self._candidate(hypothesis) for hypothesis in by_number[i][: self.options.nbest]]
            for i in range(len(tokens))
        ]

    def _candidate(self, hypothesis: dict[str, Any]) -> Candidate:
        tokens = hypothesis["tokens"].int().cpu()
        ignored = self._generator.symbols_to_strip_from_output
        text = self.task.target_dictionary.string(tokens, extra_symbols_to_ignore=ignored)
        token_scores = (hypothesis["positional_scores"].cpu() / math.log(2)).tolist()
        return Candidate(
            text.split(" ") if text else [],
            float(hypothesis["score"]) / math.log(2),
            token_scores,
            [(int(s), int(t)) for s, t in hypothesis["alignment"]] if self.aligns else None,
            is_cut_off=len(tokens) > self._generator_limit(),
        )

    def _generator_limit(self) -> int:
        """Largest number of target tokens, without the end of the sentence."""
        return min(self.options.max_len_b, self._generator.max_len - 1)


def _generation(options: EnsembleOptions) -> argparse.Namespace:
    """fairseq's options of a generation."""
    return argparse.Namespace(
        beam=options.beam,
        nbest=options.nbest,
        lenpen=options.lenpen,
        unnormalized=options.unnormalized,
        min_len=options.min_len,
        max_len_b=options.max_len_b,
        print_alignment="hard" if options.alignment else None,
        replace_unk=options.replace_unk,
    )


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
