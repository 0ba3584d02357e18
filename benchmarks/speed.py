"""``speed``: sentences a second that checkpoints translate, of a whole test set.

Table 3 of Gehring et al. (2017) has the same of its models.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.sequence_generator import SequenceGenerator

from convs2s_plugin.errors import UserError
from convs2s_plugin.tasks.autocast import CHOICES, Precision
from convs2s_plugin.text_files import write_whole

from .machine import machine
from .measure import alternate, summary
from .report import rates
from .sentences import read_task, real_batches, to_device
from .setting import DEVICES, at_least, use_device

BEAMS = 1, 5


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``speed``."""
    add = parser.add_argument
    add("data", metavar="DATA_BIN", help="a folder that fairseq-preprocess wrote")
    add("checkpoints", metavar="CHECKPOINT", nargs="+", help="models, of any kind")
    add("--subset", default="test", help="default: %(default)s")
    add("--sentences", type=at_least(1), default=128, help="of a batch (default: %(default)s)")
    add("--autocast-dtype", choices=CHOICES, default="none", help="default: %(default)s")
    add("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    add("--rounds", type=at_least(1), default=3, help="default: %(default)s")
    add("--json", type=Path, metavar="FILE", help="write the result there too")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Translate the set with every checkpoint and beam in turn, and print a table.

    Raises:
        UserError: where data, a checkpoint or the device cannot be used.
    """
    use_device(args.device)
    precision = Precision(args.autocast_dtype)
    task = read_task(args.data)
    batches = [
        to_device(batch, args.device) for batch in real_batches(task, args.subset, args.sentences)
    ]
    pieces = {}
    for path in args.checkpoints:
        model = load(path, args.data, args.device)
        precision.cast_(model)
        for beam in BEAMS:
            pieces[f"{path}, beam {beam}"] = translate(model, task, beam, batches, precision)
    times = alternate(pieces, args.rounds, 1, device=args.device)
    number = sum(batch["nsentences"] for batch in batches)
    result = {
        "data": args.data,
        "subset": args.subset,
        "sentences": number,
        "batch": args.sentences,
        "autocast_dtype": args.autocast_dtype,
        "machine": machine(args.device),
        "rounds": args.rounds,
        "sentences_per_second": {
            name: summary([number / seconds for seconds in values])
            for name, values in times.items()
        },
    }
    print(rates(result))
    if args.json:
        with write_whole(str(args.json)) as file:
            file.write(json.dumps(result, indent=2) + "\n")
    return 0


def load(path: str, data: str, device: str):
    """The model of a checkpoint, ready to generate.

    Raises:
        UserError: where there is no such file.
    """
    if not Path(path).is_file():
        raise UserError(f"There is no checkpoint {path}.")
    models, _ = checkpoint_utils.load_model_ensemble([path], {"data": data})
    (model,) = models
    model.make_generation_fast_(beamable_mm_beam_size=None, need_attn=False)
    model.to(device).eval()
    return model


def translate(
    model, task, beam: int, batches: list[dict], precision: Precision
) -> Callable[[], None]:
    """The search of a whole set as work, with fairseq's default lengths."""
    generator = SequenceGenerator([model], task.target_dictionary, beam_size=beam)

    def work() -> None:
        for batch in batches:
            with precision.autocast(model):
                generator.generate([model], batch)

    return work
