"""Transformers in ADL that CTranslate2 translates with, on a CPU.

The search of CTranslate2 takes the place of ``search.beam_search``. It follows the same rules with
three exceptions: of the hypotheses that end in the last step of a search, it also takes those
beyond the beam; it compares hypotheses of the largest length before they end; and all sentences of
a batch have the largest length of any.
"""

import logging
import os
import platform
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ..checkpoints.export.ctranslate2_model import ctranslate2_files
from ..checkpoints.networks import Checkpoint, check_left_to_right
from ..common.errors import SequenceTooLong, UserError
from ..nn.int8 import INSTRUCTIONS, has_any
from ..text.vocabulary import Vocabulary
from .options import EnsembleOptions
from .search import Finished, largest_lengths

logger = logging.getLogger(__name__)

# Any length to the power of this is 1. With 0, CTranslate2 would end a search before it has found
# all hypotheses.
NO_PENALTY = 1e-9
# With one of these instructions, products in 8 bits are added up in 32 bits.
EXACT = (*INSTRUCTIONS, "avx_vnni")


def check_setting(checkpoints: Sequence[str], device: torch.device) -> None:
    """Check what CTranslate2 can do, before models are read.

    Raises:
        UserError: if it is not installed, there are several models, or the device is not a CPU.
    """
    if find_spec("ctranslate2") is None:
        raise UserError(
            "--engine ctranslate2 needs the package ctranslate2: pip install "
            "'convs2s-plugin[export]'"
        )
    if len(checkpoints) > 1:
        raise UserError(
            f"--engine ctranslate2 translates with one model, but --path has {len(checkpoints)}: "
            "give one, or omit --engine."
        )
    if device.type != "cpu":
        raise UserError(
            f"--engine ctranslate2 translates on a CPU, but the device is {device}: give --device "
            "cpu, or omit --engine."
        )


class CTranslate2Engine:
    """A network that CTranslate2 runs.

    Args:
        network: a network that is ready for generation; one in 8 bits is converted to single
            precision.
        checkpoint: its checkpoint.
        vocabularies: those of source and target.
        options: how to translate, with the precision; CTranslate2 computes in 8 bits what was in 8
            bits.
    Raises:
        TextError: if a layer is not one of CTranslate2's transformer; the error shows its place.
        UserError: if the network is not one in ADL, has weights that are not numbers or the option
            ``right_to_left``, or if options contradict each other.
    """

    def __init__(
        self,
        network: Any,
        checkpoint: Checkpoint,
        vocabularies: tuple[Vocabulary, Vocabulary],
        options: EnsembleOptions,
    ):
        if checkpoint.family != "adl":
            raise UserError(
                f"{checkpoint.path} has a model of --arch {checkpoint.architecture}, but --engine "
                "ctranslate2 needs a model in ADL with the layers of a transformer, such as "
                "adl_transformer: omit --engine."
            )
        check_left_to_right(checkpoint, "CTranslate2")
        is_quantized = network.quantized
        if is_quantized:
            network.dequantize_()
        self._compute_type = _compute_type(options.int8, is_quantized, options.autocast_dtype)
        weights = network.state_dict()
        if not all(bool(tensor.isfinite().all()) for tensor in weights.values()):
            raise UserError(
                f"{checkpoint.path} has weights that are infinite or not a number: use another "
                "checkpoint."
            )
        is_int8 = self._compute_type == "int8"
        self._files = ctranslate2_files(network.spec, weights, vocabularies, is_int8)
        self._symbols = vocabularies[1]
        self._max_source_length: int = network.max_source_length
        self._max_target_length: int = network.max_target_length
        # One for each process: a fork can neither use nor end that of its parent.
        self._translators: dict[int, Any] = {}
        self._lock = threading.Lock()

    def search(self, sentences: Sequence[Tensor], options: EnsembleOptions) -> list[list[Finished]]:
        """Search for the best translations of a batch.

        Args:
            sentences: the source tokens of each sentence, its end included; at least one.
            options: how to search.
        Returns:
            For each sentence at most ``options.beam`` hypotheses, the best one first, without the
            log-probabilities of their tokens.
        Raises:
            UserError: if a sentence is too long, or no translation can have the smallest length.
        """
        lengths = list(map(len, sentences))
        longest = max(lengths)
        if longest > self._max_source_length:
            raise SequenceTooLong(longest, self._max_source_length)
        max_len = max(largest_lengths(options, lengths, self._max_target_length))
        batch = _Batch(self._translator(), self._symbols, options, max_len)
        sources = [list(map(str, sentence.tolist())) for sentence in sentences]
        # CTranslate2 excludes what is forbidden from the softmax, which changes scores. Therefore
        # the shortest and padding are forbidden only to sentences that would have them.
        if options.min_len > 1:
            return batch.search(sources, strict=True)
        found = batch.search(sources, strict=False)
        again = [number for number, each in enumerate(found) if batch.has_forbidden(each)]
        for number, each in zip(again, batch.search([sources[i] for i in again], strict=True)):
            found[number] = each
        return found

    def _translator(self) -> Any:
        """CTranslate2's translator in this process, with the threads that torch has here."""
        import ctranslate2

        with self._lock:
            if os.getpid() not in self._translators:
                self._translators[os.getpid()] = ctranslate2.Translator(
                    "model",
                    device="cpu",
                    compute_type=self._compute_type,
                    inter_threads=1,
                    intra_threads=torch.get_num_threads(),
                    files=self._files,
                )
            return self._translators[os.getpid()]


class _Batch:
    """What CTranslate2 does with a batch.

    Args:
        translator: CTranslate2's translator.
        symbols: the target vocabulary.
        options: how to search.
        max_len: largest number of tokens, without the end of the sentence.
    """

    def __init__(
        self, translator: Any, symbols: Vocabulary, options: EnsembleOptions, max_len: int
    ):
        self.translator, self.options, self.max_len = translator, options, max_len
        self.end, self.pad = str(symbols.eos()), str(symbols.pad())
        # Padding is never chosen.
        self.beam = min(options.beam, len(symbols) - 1)

    def has_forbidden(self, hypotheses: list[Finished]) -> bool:
        """Whether a hypothesis has no word, or has padding."""
        found = [each.tokens.tolist() for each in hypotheses]
        return any(len(tokens) == 1 or int(self.pad) in tokens for tokens in found)

    def search(self, sources: list[list[str]], strict: bool) -> list[list[Finished]]:
        """Search for the best translations.

        Args:
            sources: the tokens of each sentence.
            strict: whether to forbid what is too short, and padding.
        """
        if not sources:
            return []
        penalty = 0.0 if self.options.unnormalized else self.options.lenpen
        results = self.translator.translate_batch(
            sources,
            beam_size=self.beam,
            num_hypotheses=self.beam,
            length_penalty=penalty or NO_PENALTY,
            min_decoding_length=self.options.min_len if strict else 0,
            max_decoding_length=self.max_len,
            max_input_length=0,
            suppress_sequences=[[self.pad]] if strict else None,
            return_end_token=True,
            return_scores=True,
        )
        scores = [list(result.scores) for result in results]
        inexact = [
            (number, rank, [token for token in hypothesis if token != self.end])
            for number, result in enumerate(results)
            for rank, hypothesis in enumerate(result.hypotheses)
            if strict or hypothesis[-1] != self.end
        ]
        targets = [target for _, _, target in inexact]
        exact = self.scores([sources[number] for number, _, _ in inexact], targets)
        for (number, rank, _), score in zip(inexact, exact):
            scores[number][rank] = score
        return [
            sorted(map(self.finished, result.hypotheses, each), key=lambda one: -one.score)
            for result, each in zip(results, scores)
        ]

    def scores(self, sources: list[list[str]], targets: list[list[str]]) -> list[float]:
        """The scores of translations, with all tokens in the softmax, and with their ends."""
        if not sources:
            return []
        found = self.translator.score_batch(sources, targets, max_input_length=0)
        return [self.options.score(sum(each.log_probs), len(each.log_probs)) for each in found]

    def finished(self, hypothesis: list[str], score: float) -> Finished:
        """A hypothesis, whose end may be missing."""
        words = [int(token) for token in hypothesis if token != self.end]
        tokens = torch.tensor([*words, int(self.end)])
        return Finished(tokens, score, torch.empty(0), None, len(words) >= self.max_len)


def may_saturate() -> bool:
    """Whether sums of two products in 8 bits may saturate at 16 bits.

    On x86 without VNNI and AMX, they do in oneDNN, with which CTranslate2 multiplies (oneDNN's
    developer guide, "Nuances of int8 Computations").
    """
    return platform.machine() in ("x86_64", "AMD64") and not has_any(EXACT)


def _compute_type(is_asked: bool, is_quantized: bool, autocast_dtype: str) -> str:
    """The precision in CTranslate2's names.

    Args:
        is_asked: whether 8 bits are asked for.
        is_quantized: whether the checkpoint is in 8 bits.
        autocast_dtype: half precision, or "none".
    Raises:
        UserError: if both are wanted.
    """
    import ctranslate2

    int8 = is_asked or is_quantized
    if int8 and autocast_dtype != "none":
        raise UserError("Weights in 8 bits exclude half precision: omit --autocast-dtype.")
    if int8 and may_saturate():
        if is_asked:
            logger.warning(
                "torch finds neither VNNI nor AMX in this CPU: the model computes in single "
                "precision instead of int8."
            )
        return "float32"
    name = "int8" if int8 else "float32" if autocast_dtype == "none" else autocast_dtype
    if name not in ctranslate2.get_supported_compute_types("cpu"):
        logger.warning(
            "CTranslate2 has no %s for this CPU: the model computes in single precision.", name
        )
        return "float32"
    return name
