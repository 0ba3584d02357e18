"""Two models side by side: times, matrix products, memory."""

import argparse

from .machine import machine
from .measure import alternate, peak_memory, peak_on_gpu, ratios, summary
from .roofline import count_products, large_product
from .setting import DEVICES, DTYPES, Setting, at_least, use_device
from .work import CRITERIA, WORK

SIDES = ("ours", "peer")


def add_options(parser: argparse.ArgumentParser, what: str) -> None:
    """The options of ``train``, ``generate`` and ``memory``.

    Args:
        parser: gets them.
        what: which of the three.
    """
    add = parser.add_argument
    if what == "memory":
        add("--work", choices=tuple(WORK), default="train", help="default: %(default)s")
    else:
        add("--rounds", type=at_least(1), default=10, help="default: %(default)s")
    add("--arch", default="convs2s_iwslt_de_en", help="default: %(default)s")
    add("--peer", default="fconv_iwslt_de_en", help="default: %(default)s")
    add("--words", type=at_least(10), default=8000, help="types (default: %(default)s)")
    add("--sentences", type=at_least(1), default=64, help="of a batch (default: %(default)s)")
    add("--length", type=at_least(2), default=25, help="words (default: %(default)s)")
    add("--data", metavar="DIR", help="binarised by fairseq-preprocess; else random sentences")
    add("--batches", type=at_least(1), default=1, help="of --data (default: %(default)s)")
    add("--layers", type=at_least(1), help="of both models (default: their architectures')")
    for side, default in (("", "float32"), ("peer-", "float32")):
        add(
            f"--{side}dtype",
            choices=DTYPES,
            default=default,
            help="autocast to bfloat16 or float16; half: all weights in float16, as fairseq's "
            "--fp16 (default: %(default)s)",
        )
    add("--device", choices=DEVICES, default="cpu", help="default: %(default)s")
    if what != "generate":
        for side in ("", "peer-"):
            add(
                f"--{side}criterion",
                choices=tuple(CRITERIA),
                help="for training (default: ours for our models, fairseq's for others)",
            )
    if what != "train":
        add("--beam", type=at_least(1), default=5, help="for generation (default: %(default)s)")
        add(
            "--candidates",
            type=at_least(6),
            metavar="N",
            help="in generation, our model scores so many words, as with --lexicon",
        )


def run(args: argparse.Namespace) -> dict:
    """What ``train``, ``generate`` and ``memory`` measure, with everything that describes it.

    Raises:
        UserError: where something that was asked for is not there.
    """
    use_device(args.device)
    given = vars(args)
    shared = {
        name: given[name]
        for name in ("words", "sentences", "length", "layers", "beam", "device", "data", "batches")
        if name in given
    }
    ours = Setting(
        args.arch,
        dtype=args.dtype,
        candidates=given.get("candidates"),
        criterion=given.get("criterion"),
        **shared,
    )
    peer = Setting(
        args.peer, dtype=args.peer_dtype, criterion=given.get("peer_criterion"), **shared
    )
    if args.what == "memory":
        return compare_memory(args.work, ours, peer)
    return compare(args.what, ours, peer, args.rounds)


def compare(
    what: str, ours: Setting, peer: Setting, rounds: int, seconds: float | None = None
) -> dict:
    """Times of both in turn, and of their matrix products; on a GPU, their memory too.

    Args:
        what: ``train`` or ``generate``.
        ours, peer: both sides.
        rounds: how many rounds count.
        seconds: after which a few rounds are enough (no limit).
    """
    device = ours.device
    settings = dict(zip(SIDES, (ours, peer)))
    prepared = {side: WORK[what](setting) for side, setting in settings.items()}
    # Counting warms up at the same time.
    for work in prepared.values():
        work.tiny()
    counted = {side: count_products(work.whole) for side, work in prepared.items()}
    products = {
        setting.dtype: large_product(setting.dtype, device) for setting in settings.values()
    }
    for product in products.values():
        product.work()
    pieces = {side: work.whole for side, work in prepared.items()}
    # Between the two, so that what slows the machine for a while slows all of them.
    pieces.update({dtype: product.work for dtype, product in products.items()})
    times = alternate(pieces, rounds, 0, seconds, device)
    result = {
        **_description(what, ours, peer),
        "rounds": len(times["ours"]),
        "parameters": {side: work.parameters for side, work in prepared.items()},
        "seconds": {side: summary(times[side]) for side in SIDES},
        "products": {},
    }
    result["seconds"]["ratio"] = summary(ratios(times["peer"], times["ours"]))
    for side, (flops, not_counted) in counted.items():
        dtype = settings[side].dtype
        rates = [products[dtype].flops / time for time in times[dtype]]
        shares = [flops / rate / time for rate, time in zip(rates, times[side])]
        result["products"][side] = {
            "flops": flops,
            "not_counted": not_counted,
            "flops_per_second": summary(rates),
            "share": summary(shares),
        }
    if device == "cuda":
        result["bytes"] = {side: peak_on_gpu(*work[:2]) for side, work in prepared.items()}
    return result


def compare_memory(what: str, ours: Setting, peer: Setting) -> dict:
    """The most memory that either takes beyond its weights and gradients."""
    settings = dict(zip(SIDES, (ours, peer)))
    held = {
        side: peak_memory(setting.device, WORK[what], setting) for side, setting in settings.items()
    }
    return {**_description(what, ours, peer), "bytes": held}


def _description(what: str, ours: Setting, peer: Setting) -> dict:
    return {
        "what": what,
        "ours": ours._asdict(),
        "peer": peer._asdict(),
        "machine": machine(ours.device),
    }
