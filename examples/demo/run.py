"""From nothing to a translation: make a corpus, train ConvS2S on it, translate and score.

Each step is a command that is printed before it runs; its whole output is in OUT/logs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from pathlib import Path

from make_corpus import LANGUAGES, SIZES, detokenise, tokenise
from runner import Demo, short

HERE = Path(__file__).resolve().parent
USER_DIR = HERE.parents[1] / "convs2s_plugin"
MERGES = 1_000
UPDATES = 900
SHOWN = 5


def make_data(demo: Demo, seed: int) -> None:
    """Write the corpus, learn and apply BPE, and binarise."""
    out = demo.out
    demo.step("A corpus of number words, dates, times, units and prices")
    demo.run(
        "corpus",
        [sys.executable, HERE / "make_corpus.py", out / "corpus", "--seed", seed],
    )
    both = out / "corpus" / "train.both"
    both.write_bytes(b"".join((out / f"corpus/train.{lang}").read_bytes() for lang in LANGUAGES))

    demo.step(f"Sub-words ({MERGES:,} merges, learnt on both languages)")
    codes = out / "codes.bpe"
    demo.run("learn-bpe", ["subword-nmt", "learn-bpe", "-s", MERGES], stdin=both, stdout=codes)
    (out / "bpe").mkdir()
    for split in SIZES:
        for lang in LANGUAGES:
            file = f"{split}.{lang}"
            demo.run(
                f"apply-bpe.{file}",
                ["subword-nmt", "apply-bpe", "-c", codes],
                stdin=out / "corpus" / file,
                stdout=out / "bpe" / file,
            )

    demo.step("fairseq's binary format")
    prefixes = [word for split in SIZES for word in (f"--{split}pref", out / "bpe" / split)]
    demo.run(
        "preprocess",
        ["fairseq-preprocess", "-s", "de", "-t", "en", "--joined-dictionary"]
        + [*prefixes, "--destdir", out / "data-bin", "--workers", 1],
    )


class TrainingProgress:
    """Turns fairseq-train's JSON log into one line of progress."""

    def __init__(self, demo: Demo):
        self.demo = demo
        self.start = time.monotonic()

    def __call__(self, line: str) -> None:
        found = re.search(r"\| (train_inner|valid) \| (\{.*\})", line)
        if found is None:
            return
        kind, stats = found[1], json.loads(found[2])
        if kind == "train_inner":
            seconds = int(time.monotonic() - self.start)
            self.demo.progress(
                f"  epoch {stats['epoch']}  update {stats['num_updates']}/{UPDATES}"
                f"  loss {stats['loss']}  ppl {stats['ppl']}"
                f"  {float(stats['wps']):,.0f} words/s  {seconds // 60}:{seconds % 60:02}"
            )
        else:
            self.demo.progress(
                f"  epoch {stats['epoch']} done: held-out loss {stats['valid_loss']}"
                f"  ppl {stats['valid_ppl']}"
            )
            if not self.demo.fresh_line:
                self.demo.say()


def train(demo: Demo, seed: int) -> Path:
    """Train with a short recipe and return the checkpoint."""
    out = demo.out
    demo.step("Training ConvS2S")
    command = ["fairseq-train", out / "data-bin", "--user-dir", USER_DIR, "--cpu"]
    command += ["--arch", "convs2s_iwslt_de_en", "--dropout", 0.1]
    command += ["--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1]
    command += ["--optimizer", "adam", "--lr", 1e-3, "--clip-norm", 1.0]
    command += ["--lr-scheduler", "cosine", "--warmup-updates", 50]
    command += ["--max-update", UPDATES, "--max-tokens", 1000, "--seed", seed]
    command += ["--save-dir", out / "checkpoints", "--no-epoch-checkpoints"]
    command += ["--log-format", "json", "--log-interval", 20]
    demo.run("train", command, watch=TrainingProgress(demo))
    return out / "checkpoints" / "checkpoint_last.pt"


def translate(demo: Demo, checkpoint: Path) -> list[tuple[str, str, str]]:
    """Translate the test set; return (source, translation, reference) in its order."""
    out = demo.out
    demo.step(f"Translating {SIZES['test']:,} held-out sentences")
    demo.run(
        "generate",
        ["fairseq-generate", out / "data-bin", "--user-dir", USER_DIR, "--cpu"]
        + ["--path", checkpoint, "--beam", 5, "--max-tokens", 4000, "--remove-bpe"],
        stdout=out / "generate.out",
    )
    hypotheses = {}
    for line in (out / "generate.out").read_text(encoding="utf-8").splitlines():
        found = re.match(r"H-(\d+)\t[^\t]*\t(.*)", line)
        if found:
            hypotheses[int(found[1])] = found[2]
    sides = [
        (out / f"corpus/test.{lang}").read_text(encoding="utf-8").splitlines() for lang in LANGUAGES
    ]
    return [
        (detokenise(source), detokenise(hypotheses[row]), detokenise(reference))
        for row, (source, reference) in enumerate(zip(*sides))
    ]


def score(demo: Demo, rows: list[tuple[str, str, str]]) -> str:
    """Score the translations with sacreBLEU on plain text."""
    demo.step("sacreBLEU")
    for name, column in (("translation", 1), ("reference", 2)):
        text = "".join(f"{row[column]}\n" for row in rows)
        (demo.out / f"test.{name}.en").write_text(text, encoding="utf-8")
    result = demo.out / "bleu.txt"
    files = [demo.out / "test.reference.en", "-i", demo.out / "test.translation.en"]
    demo.run("sacrebleu", ["sacrebleu", *files, "-m", "bleu", "-b", "-w", 2], stdout=result)
    return result.read_text(encoding="utf-8").strip()


def show(demo: Demo, rows: list[tuple[str, str, str]]) -> None:
    """Print some translations between their sources and references."""
    demo.step(f"{SHOWN} translations")
    # From the longer half, where word order differs most.
    ordered = sorted(rows, key=lambda row: len(row[0]))
    for number in range(SHOWN):
        source, translation, reference = ordered[len(rows) * (SHOWN + number) // (2 * SHOWN)]
        demo.say(f"  source       {source}")
        demo.say(f"  translation  {translation}")
        demo.say(f"  reference    {reference}\n")


def plot(demo: Demo, checkpoint: Path, rows: list[tuple[str, str, str]]) -> Path:
    """Draw the attention of a spoken date and of a long number."""
    demo.step("Attention")
    sources = [tokenise(source) for source, translation, reference in rows]
    chosen = [
        next((source for source in sources if re.search(pattern, source)), sources[0])
        for pattern in (r"tag , der \w+ \w+ \w+$", r"^\w{30,} \w+ pro \w+$")
    ]
    picture = demo.out / "attention.png"
    demo.run(
        "plot-attention",
        ["convs2s", "plot-attention", "--path", checkpoint, "--data", demo.out / "data-bin"]
        + ["--bpe-codes", demo.out / "codes.bpe", "--output", picture, *chosen],
    )
    return picture


def empty(out: Path) -> None:
    """Remove what an earlier demo left, but nothing that is not a demo's."""
    if out.exists():
        if any(out.iterdir()) and not (out / "logs" / "corpus.log").exists():
            sys.exit(f"{out} holds other files: give --out a new folder, or one of this demo's.")
        shutil.rmtree(out)
    (out / "logs").mkdir(parents=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("demo_out"), help="is emptied first")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    out = args.out.resolve()
    empty(out)
    demo = Demo(out)
    make_data(demo, args.seed)
    checkpoint = train(demo, args.seed)
    rows = translate(demo, checkpoint)
    bleu = score(demo, rows)
    show(demo, rows)
    picture = plot(demo, checkpoint, rows)

    demo.step("Done")
    demo.say(f"BLEU = {bleu}")
    for what, path in (
        ("model", checkpoint),
        ("translations", out / "test.translation.en"),
        ("references", out / "test.reference.en"),
        ("attention", picture),
        ("logs", demo.logs),
    ):
        demo.say(f"{what:12} {short(path)}")


if __name__ == "__main__":
    main()
