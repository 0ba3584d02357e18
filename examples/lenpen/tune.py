"""Tune the length penalty: run fairseq-generate on a validation set with several --lenpen values.

All other options are passed to fairseq-generate.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

USER_DIR = Path(__file__).resolve().parents[2] / "convs2s_plugin"
VALUES = "0.4,0.6,0.8,1,1.2,1.4,1.6"


def bleu(arguments: list[str], alpha: float) -> float:
    """Translate with the length penalty ``alpha`` and return fairseq's BLEU."""
    code = "import sys; from fairseq_cli.generate import cli_main; sys.exit(cli_main())"
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--lenpen", str(alpha)],
        capture_output=True,
        text=True,
    )
    found = re.findall(r"BLEU\d? = ([\d.]+)", done.stdout)
    if done.returncode or not found:
        sys.exit(
            f"fairseq-generate --lenpen {alpha} failed:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    return float(found[-1])


def numbers(text: str) -> list[float]:
    """Parse numbers separated by commas."""
    return [float(number) for number in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], usage="%(prog)s [options] DATA --path CHECKPOINT ..."
    )
    parser.add_argument(
        "--values",
        type=numbers,
        default=VALUES,
        metavar="ALPHA,...",
        help="values of --lenpen (default: %(default)s)",
    )
    parser.add_argument("--gen-subset", default="valid", help="split (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="values in parallel (default: 1)")
    args, rest = parser.parse_known_args()
    if not rest:
        parser.error("fairseq-generate's arguments are missing: DATA --path CHECKPOINT ...")
    if args.jobs < 1 or min(args.values) < 0:
        parser.error("--jobs must be at least 1, and all --values at least 0.")
    if "--user-dir" not in rest:
        rest += ["--user-dir", str(USER_DIR)]
    rest += ["--gen-subset", args.gen_subset]

    print(f"| lenpen | BLEU on {args.gen_subset} |\n|---|---|")
    scores = {}
    with ThreadPoolExecutor(args.jobs) as pool:
        for alpha, score in zip(args.values, pool.map(lambda a: bleu(rest, a), args.values)):
            scores[alpha] = score
            print(f"| {alpha:g} | {score:.2f} |", flush=True)
    best = max(scores, key=scores.__getitem__)
    print(f"\nbest: --lenpen {best:g}")


if __name__ == "__main__":
    main()
