"""``speed``: speed and BLEU of trained models on a whole test set.

Table 3 of Gehring et al. (2017) reports generation speed in the same way.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from sacrebleu.metrics import BLEU

from convs2s.common.errors import UserError
from convs2s.evaluation.nbest import join
from convs2s.translation import Translator
from convs2s.translation.options import AUTOCAST_DTYPES, EnsembleOptions
from convs2s_plugin.loading import load

from . import ctranslate2_peer
from .machine import machine
from .measure import alternate, summary
from .options import add_device, add_numbers, int_at_least
from .sentences import read_task, tokens_of_split
from .setting import use_device

BEAM_SIZES = 1, 5
# Source tokens in a batch of CTranslate2, of which the fastest number is compared.
PEER_TOKENS = 1000, 2000, 4000, 8000
# The tokens of the best hypothesis of each sentence.
Translations = list[list[str]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``speed``."""
    add = parser.add_argument
    add("data", metavar="DATA_BIN", help="a folder written by fairseq-preprocess")
    add(
        "models",
        metavar="MODEL",
        nargs="+",
        help="checkpoints of any models, also in 8 bits or with shortlists, and folders that a "
        "converter of CTranslate2 wrote; DATA_BIN=MODEL for a model with other dictionaries, "
        "whose DATA_BIN has the same text",
    )
    add("--subset", default="test", help="the split to translate (default: %(default)s)")
    add_numbers(parser, rounds=3)
    add(
        "--max-tokens",
        type=int_at_least(1),
        metavar="N",
        help="source tokens in a batch (default: those of convs2s translate; of several numbers "
        "the fastest for CTranslate2)",
    )
    add(
        "--single",
        action="store_true",
        help="one sentence at a time, in one process; CTranslate2 uses all threads or one, "
        "whichever is faster",
    )
    for name, default, text in (
        ("--max-len-a", EnsembleOptions.max_len_a, "as for convs2s translate"),
        ("--max-len-b", EnsembleOptions.max_len_b, "as for convs2s translate"),
    ):
        kind = float if isinstance(default, float) else int_at_least(1)
        add(name, type=kind, default=default, metavar="N", help=f"{text} (default: %(default)s)")
    add("--autocast-dtype", choices=AUTOCAST_DTYPES, default="none", help="default: %(default)s")
    add_device(parser)


def run(args: argparse.Namespace) -> dict:
    """Translate the split with every model and beam size in turn.

    On a CPU, as many processes as there are threads translate, with one thread each, unless
    ``--single`` is given.

    Raises:
        UserError: if the data, a model or the device cannot be used.
    """
    use_device(args.device)
    _, targets = tokens_of_split(read_task(args.data), args.subset)
    references = [join(" ".join(tokens), "subword_nmt") for tokens in targets]
    timed: dict[str, Callable[[], Translations]] = {}
    for model in args.models:
        other, _, path = model.rpartition("=")
        of_model = argparse.Namespace(**{**vars(args), "data": other or args.data})
        sources, _ = tokens_of_split(read_task(of_model.data), args.subset)
        prepare = prepare_peer if Path(path).is_dir() else prepare_ours
        for size, search in prepare(path, sources, of_model).items():
            timed[f"{path}, beam {size}"] = search
    # These calls also warm up.
    found = {name: function() for name, function in timed.items()}
    times = alternate(timed, args.rounds, 0, device=args.device)

    def rates(counts: dict[str, int]) -> dict[str, dict[str, float]]:
        return {
            name: summary([counts[name] / seconds for seconds in values])
            for name, values in times.items()
        }

    return {
        "data": args.data,
        "subset": args.subset,
        "sentences": len(references),
        "max_tokens": args.max_tokens,
        "single": args.single,
        "max_len": [args.max_len_a, args.max_len_b],
        "autocast_dtype": args.autocast_dtype,
        "machine": machine(args.device),
        "rounds": args.rounds,
        "bleu": {name: bleu(translations, references) for name, translations in found.items()},
        "sentences_per_second": rates(dict.fromkeys(timed, len(references))),
        # fairseq-generate counts the end of a sentence, too.
        "tokens_per_second": rates(
            {name: sum(len(tokens) + 1 for tokens in every) for name, every in found.items()}
        ),
    }


def bleu(translations: Translations, references: list[str]) -> float:
    """BLEU on words, as fairseq-generate prints it with ``--remove-bpe``."""
    texts = [join(" ".join(tokens), "subword_nmt") for tokens in translations]
    return BLEU(tokenize="none", force=True).corpus_score(texts, [references]).score


def prepare_ours(
    path: str, sources: list[list[str]], args: argparse.Namespace
) -> dict[int, Callable[[], Translations]]:
    """Beam size -> a function that translates all sentences with a checkpoint.

    Raises:
        UserError: if there is no such file.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    names = "data max_tokens max_len_a max_len_b autocast_dtype device".split()
    translator = Translator(
        path,
        raw=True,
        load=load,
        workers=torch.get_num_threads() if args.device == "cpu" and not args.single else 1,
        batch_size=1 if args.single else None,
        **{name: getattr(args, name) for name in names},
    )
    lines = [" ".join(tokens) for tokens in sources]

    def search(translator: Translator) -> Translations:
        return [each.text.split() for each in translator.translate(lines)]

    return {size: partial(search, translator.with_options(beam=size)) for size in BEAM_SIZES}


def prepare_peer(
    folder: str, sources: list[list[str]], args: argparse.Namespace
) -> dict[int, Callable[[], Translations]]:
    """Beam size -> a function that translates all sentences with a model of CTranslate2.

    The largest length in a batch is that of the longest source.

    Raises:
        UserError: if ctranslate2 is not installed, or the folder has no model.
    """
    limits = [int(args.max_len_a * (len(tokens) + 1) + args.max_len_b) for tokens in sources]
    sizes = PEER_TOKENS if args.max_tokens is None else (args.max_tokens,)
    options = {
        beam: [{"beam_size": beam, "max_decoding_length": limit} for limit in limits]
        for beam in BEAM_SIZES
    }
    if args.single:
        choices = ctranslate2_peer.prepare_single(folder, sources, options)
    else:
        longest = {
            beam: max(each, key=lambda one: one["max_decoding_length"])
            for beam, each in options.items()
        }
        choices = {
            beam: ctranslate2_peer.prepare(folder, sources, each, sizes)
            for beam, each in longest.items()
        }
    return {beam: _fastest(searches) for beam, searches in choices.items()}


def _fastest(searches: dict[int, Callable[[], Translations]]) -> Callable[[], Translations]:
    """The fastest of several functions that translate the same."""
    times = alternate(searches, rounds=2, warmup=1)
    return searches[min(searches, key=lambda choice: min(times[choice]))]
