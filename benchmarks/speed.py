"""``speed``: speed and BLEU of trained models on a whole test set.

Table 3 of Gehring et al. (2017) reports generation speed in the same way.
"""

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask
from sacrebleu.metrics import BLEU

from convs2s.common.errors import UserError
from convs2s.evaluation.nbest import join
from convs2s.translation.options import AUTOCAST_DTYPES
from convs2s.translation.precision import Precision

from . import ctranslate2_peer
from .machine import machine
from .measure import alternate, summary
from .options import add_device, add_numbers
from .sentences import read_task, real_batches, to_device
from .setting import use_device
from .workloads import generator_of

BEAM_SIZES = 1, 5
# The tokens of the best hypothesis of each sentence, in the order of the batches.
Translations = list[list[str]]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``speed``."""
    add = parser.add_argument
    add("data", metavar="DATA_BIN", help="a folder written by fairseq-preprocess")
    add(
        "models",
        metavar="MODEL",
        nargs="+",
        help="checkpoints of any models, also in int8, and folders written by a converter of "
        "CTranslate2",
    )
    add("--subset", default="test", help="the split to translate (default: %(default)s)")
    add_numbers(parser, sentences=128, rounds=3)
    add("--autocast-dtype", choices=AUTOCAST_DTYPES, default="none", help="default: %(default)s")
    add_device(parser)


def run(args: argparse.Namespace) -> dict:
    """Translate the split with every model and beam size in turn.

    Raises:
        UserError: if the data, a model or the device cannot be used.
    """
    use_device(args.device)
    precision = Precision(args.autocast_dtype)
    task = read_task(args.data)
    batches = [
        to_device(batch, args.device) for batch in real_batches(task, args.subset, args.sentences)
    ]
    timed: dict[str, Callable[[], Translations]] = {}
    for path in args.models:
        if Path(path).is_dir():
            prepared = ctranslate2_peer.prepare(path, batches, task.source_dictionary, BEAM_SIZES)
        else:
            model = load(path, args.data, precision, args.device)
            prepared = prepare(model, task, batches, precision, BEAM_SIZES)
        timed |= {f"{path}, beam {size}": search for size, search in prepared.items()}
    padding = task.target_dictionary.pad()
    references = [
        task.target_dictionary.string(row[row != padding], "subword_nmt", escape_unk=True)
        for batch in batches
        for row in batch["target"]
    ]
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
        "batch": args.sentences,
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


def load(path: str, data: str, precision: Precision, device: str) -> BaseFairseqModel:
    """Load a checkpoint's model for generation without attention weights.

    Raises:
        UserError: if there is no such file.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    models, _ = checkpoint_utils.load_model_ensemble([path], {"data": data})
    (model,) = models
    model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
    model.to(device).eval()
    precision.prepare_(model)
    return model


def prepare(
    model: BaseFairseqModel,
    task: TranslationTask,
    batches: list[dict],
    precision: Precision,
    beam_sizes: Iterable[int],
) -> dict[int, Callable[[], Translations]]:
    """Beam size -> a function that translates all batches, with fairseq's limits on length."""
    dictionary = task.target_dictionary
    generator_class, options = generator_of(model, dictionary)

    def search(generator) -> Translations:
        with precision.autocast(model):
            return [
                tokens_of(hypotheses[0]["tokens"].tolist(), dictionary)
                for batch in batches
                for hypotheses in generator.generate([model], batch)
            ]

    return {
        size: partial(search, generator_class([model], dictionary, beam_size=size, **options))
        for size in beam_sizes
    }


def tokens_of(numbers: list[int], dictionary: Dictionary) -> list[str]:
    """The tokens of a hypothesis without the end of the sentence."""
    return [dictionary[number] for number in numbers if number != dictionary.eos()]
