"""Shortlists: the target tokens that a batch of source sentences may need.

ConvS2S, section 5.4, after Mi et al. (2016) and L'Hostis et al. (2016). The options of fairseq's
task call the tokens candidates.
"""

import heapq
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ..common.errors import UserError
from ..text.lexicon.files import Entry, read_lexicon
from .options import check_candidates
from .search import Symbols

logger = logging.getLogger(__name__)


# The entry of a checkpoint with shortlists.
ENTRY = "shortlist"


class Shortlist:
    """Computes the restricted target vocabulary of each batch.

    It is the union of the candidates of all source tokens, the most frequent target tokens, and
    the special symbols.

    Args:
        by_source: V_source x K target token indices, the candidates of each source token, filled
            up with a special symbol.
        by_frequency: all V target token indices: the special symbols, then the other tokens, the
            most frequent first.
        num_frequent: how many tokens of ``by_frequency`` are in the vocabulary of every batch.
    """

    def __init__(self, by_source: Tensor, by_frequency: Tensor, num_frequent: int):
        self.by_source = by_source
        self.by_frequency = by_frequency
        self.num_frequent = num_frequent

    def __call__(self, src_tokens: Tensor, *required: Tensor, min_size: int = 0) -> Tensor:
        """Compute the target vocabulary of a batch.

        Args:
            src_tokens: B x S source token indices.
            required: indices of target tokens that must be in it, of any shape.
            min_size: add frequent tokens until the vocabulary has at least this size (0).
        Returns:
            K sorted target token indices.
        """
        # Threads may search on several devices: what one of them keeps, another may replace.
        device = src_tokens.device
        self.by_source = by_source = self.by_source.to(device)
        self.by_frequency = by_frequency = self.by_frequency.to(device)
        parts = [by_frequency[: self.num_frequent], by_source[src_tokens.unique()]]
        tokens = torch.cat([part.flatten() for part in (*parts, *required)]).unique()
        if len(tokens) < min_size:
            tokens = torch.cat([tokens, by_frequency[:min_size]]).unique()
        return tokens

    def saved(self) -> dict[str, Any]:
        """The shortlist as an entry of a checkpoint."""
        return {
            "by_source": self.by_source.to(torch.int32, copy=True),
            "frequent": self.num_frequent,
        }


def saved_shortlist(
    states: Mapping[str, Mapping[str, Any]], source: Symbols, target: Symbols
) -> Shortlist | None:
    """The union of the shortlists of several checkpoints; None unless all have shortlists.

    Args:
        states: the file of each checkpoint -> its content.
        source: source vocabulary.
        target: target vocabulary.
    Raises:
        UserError: if what a checkpoint has does not fit the vocabularies.
    """
    found = {path: state.get(ENTRY) for path, state in states.items()}
    if not all(found.values()):
        return None
    tables: list[Any] = []
    frequent = 0
    for path, each in found.items():
        each = each if isinstance(each, Mapping) else {}
        table = each.get("by_source")
        fits = (
            isinstance(table, Tensor)
            and table.dtype == torch.int32
            and table.dim() == 2
            and len(table) == len(source)
            and table.numel() > 0
            and 0 <= int(table.min()) <= int(table.max()) < len(target)
        )
        number = each.get("frequent") if fits else None
        if not isinstance(number, int) or number < target.nspecial:
            raise UserError(
                f"The shortlists in {path} do not fit its dictionaries: the file is damaged. Make "
                "it again with `convs2s fast`."
            )
        tables.append(table)
        frequent = max(frequent, number)
    return Shortlist(torch.cat(tables, dim=1).long(), _by_frequency(target), frequent)


def load_shortlist(options: Any, source: Symbols, target: Symbols) -> Shortlist | None:
    """The shortlists that options ask for; None if they name no lexicon.

    Args:
        options: has ``lexicon``, ``candidates_per_word`` and ``frequent_candidates``.
        source: source vocabulary.
        target: target vocabulary.
    Raises:
        UserError: if the lexicon cannot be read, or as for ``check_candidates`` and
            ``build_shortlist``.
    """
    check_candidates(options)
    if options.lexicon is None:
        return None
    sizes = options.candidates_per_word, options.frequent_candidates
    return build_shortlist(read_lexicon(options.lexicon), options.lexicon, source, target, *sizes)


def build_shortlist(
    entries: Iterable[Entry],
    path: str,
    source: Symbols,
    target: Symbols,
    per_word: int,
    frequent: int,
) -> Shortlist:
    """Build shortlists from a lexicon.

    Args:
        entries: lexicon entries in any order; they are read once.
        path: the lexicon file, for error messages.
        source: source vocabulary.
        target: target vocabulary.
        per_word: K, the number of most probable translations to keep of each source token.
        frequent: number of most frequent target tokens in every shortlist.
    Raises:
        UserError: if a number is out of range, or no entry is in the dictionaries.
    """
    if per_word < 1:
        raise UserError(f"--candidates-per-word is {per_word}, but must be at least 1.")
    if frequent < 0:
        raise UserError(f"--frequent-candidates is {frequent}, but must not be negative.")
    # The K most probable entries of each source token so far, as a heap.
    best: dict[int, list[tuple[float, int]]] = {}
    unknown: dict[str, None] = {}
    num_entries = num_skipped = 0
    for entry in entries:
        num_entries += 1
        missing = [
            word
            for word, dictionary in ((entry.source, source), (entry.target, target))
            if word not in dictionary
        ]
        if missing:
            num_skipped += 1
            if len(unknown) < 3:
                unknown.update(dict.fromkeys(missing))
            continue
        heap = best.setdefault(source.index(entry.source), [])
        item = (entry.probability, target.index(entry.target))
        (heapq.heappushpop if len(heap) == per_word else heapq.heappush)(heap, item)
    examples = ", ".join(f"'{word}'" for word in list(unknown)[:3])
    if not best:
        raise UserError(
            f"None of the {num_entries:,} entries of {path} is in the dictionaries (not there: "
            f"{examples or 'the file is empty'}): build the lexicon from the text that was "
            "binarized, with the same BPE and case, and with the source language first."
        )
    if num_skipped:
        logger.warning(
            f"{num_skipped:,} of {num_entries:,} entries of {path} have words that are not in the "
            f"dictionaries and are skipped (first ones: {examples})"
        )
    logger.info(f"{len(best):,} of {len(source):,} source tokens have candidates in {path}")

    by_source = torch.full((len(source), per_word), target.pad())
    for index, heap in best.items():
        by_source[index, : len(heap)] = torch.tensor([candidate for _, candidate in heap])
    return Shortlist(by_source, _by_frequency(target), target.nspecial + frequent)


def _by_frequency(target: Symbols) -> Tensor:
    """All target tokens: the special symbols, then the others, the most frequent first."""
    special = target.nspecial
    counts = torch.tensor(target.count[special:])
    order = counts.argsort(descending=True, stable=True) + special
    return torch.cat([torch.arange(special), order])
