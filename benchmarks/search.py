"""``search``: time and memory of beam search alone, in the best tokens and in all of them.

Both sides search with the same model, whose single layers are so narrow that its own time is small.
"""

import argparse
from collections.abc import Callable

from fairseq.sequence_generator import SequenceGenerator

from convs2s_plugin.search.generator import TranslationGenerator

from .machine import machine
from .measure import alternate, peak_memory, ratios, summary
from .options import add_device, add_numbers
from .sentences import sentences
from .setting import DTYPES, Setting, build, use_device
from .workloads import searches

NARROW = (
    ("encoder_embed_dim", 8),
    ("decoder_embed_dim", 8),
    ("decoder_out_embed_dim", 8),
    ("encoder_layers", "[(8, 3)]"),
    ("decoder_layers", "[(8, 3)]"),
)
GENERATORS = {"ours": TranslationGenerator, "peer": SequenceGenerator}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``search``."""
    add_numbers(parser, words=8000, sentences=64, length=25, beam=5, rounds=10)
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="default: %(default)s")
    add_device(parser)


def prepare(side: str, setting: Setting) -> tuple[Callable[[], object], Callable[[], object]]:
    """A search of a tiny batch, and one of the batch of the setting.

    Args:
        side: "ours" or "peer".
        setting: sizes, precision and device.
    """
    data = sentences(setting, "test")
    model = build(setting, data.source, data.target).eval()
    model.make_generation_fast_(need_attn=False)
    options = {"vocab_size": len(data.target)} if side == "ours" else {}
    tiny, batches = (
        searches(model, data.target, some, setting, GENERATORS[side], options)
        for some in (data.tiny, data.batches)
    )
    return tiny, batches


def run(args: argparse.Namespace) -> dict:
    """Measure the times of both searches in turn, and the peak memory of each.

    Raises:
        UserError: if torch has no such device.
    """
    use_device(args.device)
    sizes = {name: getattr(args, name) for name in ("words", "sentences", "length", "beam")}
    setting = Setting(
        "convs2s_iwslt_de_en", dtype=args.dtype, device=args.device, options=NARROW, **sizes
    )
    timed = {side: prepare(side, setting)[1] for side in GENERATORS}
    times = alternate(timed, args.rounds, device=args.device)
    seconds = {side: summary(values) for side, values in times.items()}
    seconds["ratio"] = summary(ratios(times["peer"], times["ours"]))
    return {
        "work": "search",
        **sizes,
        **{
            side: {"arch": generator.__name__, "dtype": args.dtype}
            for side, generator in GENERATORS.items()
        },
        "machine": machine(args.device),
        "rounds": args.rounds,
        "seconds": seconds,
        "bytes": {side: peak_memory(args.device, prepare, side, setting) for side in GENERATORS},
    }
