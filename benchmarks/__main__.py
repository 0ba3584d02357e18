"""``python -m benchmarks train|generate|loss``: how many times as fast as a peer we are."""

import argparse
import json
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Dict

import torch

from convs2s_plugin.errors import UserError
from convs2s_plugin.tasks.precision import CHOICES

from . import loss
from .measure import alternate, peak_memory
from .work import Setting, generation, training


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("what", choices=("train", "generate", "loss"))
    parser.add_argument("--arch", default="convs2s_iwslt_de_en", help="default: %(default)s")
    parser.add_argument("--peer", default="fconv_iwslt_de_en", help="default: %(default)s")
    parser.add_argument("--words", type=int, default=8000, help="types (default: %(default)s)")
    parser.add_argument("--sentences", type=int, default=64, help="a batch (default: %(default)s)")
    parser.add_argument("--length", type=int, default=25, help="words (default: %(default)s)")
    parser.add_argument(
        "--channels", type=int, default=256, help="for loss: of features (default: %(default)s)"
    )
    parser.add_argument("--layers", type=int, help="of a DenseNet (default: its architecture's)")
    parser.add_argument(
        "--autocast-dtype",
        choices=CHOICES,
        default="none",
        help="of ours; the peer computes in single precision (default: %(default)s)",
    )
    parser.add_argument("--beam", type=int, default=5, help="for generate (default: %(default)s)")
    parser.add_argument(
        "--memory",
        action="store_true",
        help="for train and generate: the peak memory of both too (loss always measures it)",
    )
    parser.add_argument("--rounds", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there too")
    return parser.parse_args()


def run(args: argparse.Namespace) -> Dict:
    """Time both in turn and return everything that describes the result."""
    settings = {name: value for name, value in vars(args).items() if name != "json"}
    settings["machine"] = machine()
    if args.what == "loss":
        names = {"arch": "convs2s_cross_entropy", "peer": "label_smoothed_cross_entropy"}
        return {**settings, **names, **loss.run(args)}
    prepare = {"train": training, "generate": generation}[args.what]
    sizes = args.words, args.sentences, args.length, args.layers
    ours = Setting(args.arch, *sizes, args.autocast_dtype, args.beam)
    peer = Setting(args.peer, *sizes, beam=args.beam)
    times = alternate(prepare(ours)[1], prepare(peer)[1], args.rounds)
    result = {**settings, "seconds": times.summary()}
    if args.memory:
        sides = {"ours": ours, "peer": peer}
        result["bytes"] = {name: peak_memory(prepare, side) for name, side in sides.items()}
    return result


def machine() -> Dict[str, object]:
    """What the figures were measured on."""
    fairseq = [d for d in ("fairseq", "ve-fairseq") if _version(d)]
    return {
        "processor": platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": ", ".join(f"{name} {_version(name)}" for name in fairseq),
        "dtype": str(torch.get_default_dtype()).replace("torch.", ""),
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def table(result: Dict) -> str:
    """The result as Markdown, in milliseconds."""
    lines = ["| | median | minimum | maximum |", "|---|---|---|---|"]
    seconds = result["seconds"]
    for label, name, scale, unit in (
        (f"`{result['arch']}`", "ours", 1000, " ms"),
        (f"`{result['peer']}`", "peer", 1000, " ms"),
        ("ratio (peer's time / ours)", "ratio", 1, ""),
    ):
        cells = [f"{seconds[name][key] * scale:.2f}{unit}" for key in seconds[name]]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    if "bytes" in result:
        ours, peer = (result["bytes"][name] for name in ("ours", "peer"))
        lines += ["", f"Peak memory: {ours / 2**20:.0f} MiB, peer {peer / 2**20:.0f} MiB "]
        lines[-1] += f"({ours / peer:.2f} of it)."
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and write JSON where wanted."""
    args = parse_arguments()
    try:
        result = run(args)
    except UserError as error:
        print(f"benchmarks: error: {error}", file=sys.stderr)
        return 2
    print(table(result))
    if args.json:
        args.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
