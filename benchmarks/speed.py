"""``speed``: sentences per second of checkpoints on a whole test set.

Table 3 of Gehring et al. (2017) reports generation speed in the same way.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.models import BaseFairseqModel
from fairseq.tasks.translation import TranslationTask

from convs2s_plugin.errors import UserError
from convs2s_plugin.tasks.autocast import CHOICES, Precision

from .machine import machine
from .measure import alternate, summary
from .options import add_device, add_numbers
from .sentences import read_task, real_batches, to_device
from .setting import use_device
from .workloads import generator_of

BEAM_SIZES = 1, 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``speed``."""
    add = parser.add_argument
    add("data", metavar="DATA_BIN", help="a folder written by fairseq-preprocess")
    add("checkpoints", metavar="CHECKPOINT", nargs="+", help="checkpoints of any models")
    add("--subset", default="test", help="the split to translate (default: %(default)s)")
    add_numbers(parser, sentences=128, rounds=3)
    add("--autocast-dtype", choices=CHOICES, default="none", help="default: %(default)s")
    add_device(parser)


def run(args: argparse.Namespace) -> dict:
    """Translate the split with every checkpoint and beam size in turn.

    Raises:
        UserError: if the data, a checkpoint or the device cannot be used.
    """
    use_device(args.device)
    precision = Precision(args.autocast_dtype)
    task = read_task(args.data)
    batches = [
        to_device(batch, args.device) for batch in real_batches(task, args.subset, args.sentences)
    ]
    timed = {}
    for path in args.checkpoints:
        model = load(path, args.data, args.device)
        precision.cast_(model)
        for beam_size in BEAM_SIZES:
            timed[f"{path}, beam {beam_size}"] = translate(
                model, task, beam_size, batches, precision
            )
    times = alternate(timed, args.rounds, 1, device=args.device)
    sentences = sum(batch["nsentences"] for batch in batches)
    return {
        "data": args.data,
        "subset": args.subset,
        "sentences": sentences,
        "batch": args.sentences,
        "autocast_dtype": args.autocast_dtype,
        "machine": machine(args.device),
        "rounds": args.rounds,
        "sentences_per_second": {
            name: summary([sentences / seconds for seconds in values])
            for name, values in times.items()
        },
    }


def load(path: str, data: str, device: str) -> BaseFairseqModel:
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
    return model


def translate(
    model: BaseFairseqModel,
    task: TranslationTask,
    beam_size: int,
    batches: list[dict],
    precision: Precision,
) -> Callable[[], None]:
    """A function that translates all batches, with fairseq's default limits on length."""
    generator_class, options = generator_of(model, task.target_dictionary)
    generator = generator_class([model], task.target_dictionary, beam_size=beam_size, **options)

    def run_search() -> None:
        for batch in batches:
            with precision.autocast(model):
                generator.generate([model], batch)

    return run_search
