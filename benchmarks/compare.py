"""Compare two models: times, matrix multiplications and memory."""

import argparse

from convs2s.nn.flops import MatmulFlops, count_matmul_flops

from . import operations
from .machine import machine
from .measure import alternate, peak_memory, peak_on_gpu, ratios, summary
from .options import add_device, add_numbers, int_at_least
from .roofline import large_matmul
from .setting import DTYPES, TORCH, Setting, use_device
from .workload import Workload
from .workloads import CRITERIA, WORKLOADS

SIDES = ("ours", "peer")


def add_options(parser: argparse.ArgumentParser, command: str) -> None:
    """Add the options of ``train``, ``generate`` or ``memory``.

    Args:
        parser: the parser of the command.
        command: one of the three names.
    """
    add = parser.add_argument
    if command == "memory":
        add(
            "--work",
            choices=("train", "generate"),
            default="train",
            help="a training step or beam search (default: %(default)s)",
        )
    else:
        add_numbers(parser, rounds=10)
    add(
        "--arch",
        default="convs2s_iwslt_de_en",
        help="the first architecture (default: %(default)s)",
    )
    add(
        "--peer",
        default="fconv_iwslt_de_en",
        help="the architecture to compare with (default: %(default)s)",
    )
    add_numbers(parser, words=8000, sentences=64, length=25)
    add(
        "--data",
        metavar="DIR",
        help="data binarized by fairseq-preprocess (default: random sentences)",
    )
    add_numbers(parser, batches=1)
    add(
        "--layers",
        type=int_at_least(1),
        help="number of layers of both models (default: that of each architecture)",
    )
    for side in ("", "peer-"):
        add(
            f"--{side}dtype",
            choices=DTYPES,
            default="float32",
            help="bfloat16 and float16: autocast; half: all weights in float16, as with fairseq's "
            "--fp16; int8: generation on a CPU (default: %(default)s)",
        )
    add_device(parser)
    if command != "generate":
        for side in ("", "peer-"):
            add(
                f"--{side}criterion",
                choices=tuple(CRITERIA),
                help="training criterion (default: convs2s_cross_entropy for the models of this "
                "package, label_smoothed_cross_entropy for others)",
            )
    if command != "train":
        add_numbers(parser, beam=5)
        add(
            "--candidates",
            type=int_at_least(6),
            metavar="N",
            help="let the first model score only N candidates in generation, as with --lexicon",
        )


def run(args: argparse.Namespace) -> dict:
    """Run ``train``, ``generate`` or ``memory``.

    Returns:
        The measurements with both settings and the machine.
    Raises:
        UserError: if an architecture, the device, the data or a size cannot be used.
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
    if args.command == "memory":
        return compare_memory(args.work, ours, peer)
    return compare(args.command, ours, peer, args.rounds)


def compare(
    work: str, ours: Setting, peer: Setting, rounds: int, max_seconds: float | None = None
) -> dict:
    """Measure the times of both models and of a large matrix multiplication, in turn.

    On a CPU, the result includes the shares of operations in our time; on a GPU, peak memory.

    Args:
        work: ``train`` or ``generate``.
        ours, peer: the two sides.
        rounds: number of measured rounds.
        max_seconds: time limit, see ``alternate`` (no limit).
    """
    device = ours.device
    settings = dict(zip(SIDES, (ours, peer)))
    workloads = {side: WORKLOADS[work](setting) for side, setting in settings.items()}
    # The run that counts operations is also the warm-up.
    for workload in workloads.values():
        workload.warm_up()
    counted = {side: _count(settings[side], workload) for side, workload in workloads.items()}
    large_matmuls = {
        setting.dtype: large_matmul(setting.dtype, device) for setting in settings.values()
    }
    for matmul in large_matmuls.values():
        matmul.run()
    timed = {side: workload.run for side, workload in workloads.items()}
    # In the same rounds as the models, so that a slow phase of the machine affects all alike.
    timed.update({dtype: matmul.run for dtype, matmul in large_matmuls.items()})
    times = alternate(timed, rounds, 0, max_seconds, device)
    result = {
        **_description(work, ours, peer),
        "rounds": len(times["ours"]),
        "parameters": {side: workload.parameters for side, workload in workloads.items()},
        "seconds": {side: summary(times[side]) for side in SIDES},
        "matmul": {},
    }
    result["seconds"]["ratio"] = summary(ratios(times["peer"], times["ours"]))
    for side, (flops, not_counted) in counted.items():
        dtype = settings[side].dtype
        rates = [large_matmuls[dtype].flops / seconds for seconds in times[dtype]]
        shares = [flops / rate / seconds for rate, seconds in zip(rates, times[side])]
        result["matmul"][side] = {
            "flops": flops,
            "not_counted": not_counted,
            "flops_per_second": summary(rates),
            "share": summary(shares),
        }
    if device == "cpu":
        result["operations"] = operations.shares(workloads["ours"].run)
    if device == "cuda":
        result["bytes"] = {
            side: peak_on_gpu(workload.warm_up, workload.run)
            for side, workload in workloads.items()
        }
    return result


def _count(setting: Setting, workload: Workload) -> MatmulFlops:
    """Run a workload, and count its operations if torch computes them."""
    counted = count_matmul_flops(workload.run)
    return counted if setting.engine == TORCH else MatmulFlops(0, [setting.engine])


def compare_memory(work: str, ours: Setting, peer: Setting) -> dict:
    """Measure the peak memory of both models, beyond their weights and gradients."""
    settings = dict(zip(SIDES, (ours, peer)))
    peaks = {
        side: peak_memory(setting.device, WORKLOADS[work], setting)
        for side, setting in settings.items()
    }
    return {**_description(work, ours, peer), "bytes": peaks}


def _description(work: str, ours: Setting, peer: Setting) -> dict:
    return {
        "work": work,
        "ours": ours._asdict(),
        "peer": peer._asdict(),
        "machine": machine(ours.device),
    }
