"""Small programs that take the place of fairseq's: they answer at once and learn nothing.

A training logs one line for each update and writes a checkpoint after every second one, whatever
its options say. It resumes from its last checkpoint, fails if its learning rate is 666, diverges if
it is 777, and waits after its first checkpoint while there is a file "wait" in the current folder.
"""

import json
import sys
import time
from pathlib import Path

EPOCH = 2  # updates


def main(program, arguments):
    """Do the work of one program."""
    options = {
        name.removeprefix("--"): value for name, value in zip(arguments, [*arguments[1:], ""])
    }
    globals()[program.replace("-", "_")](arguments, options)


def fairseq_train(arguments, options):
    """Log and write checkpoints."""
    print("| num. shared model params: 1,000 (num. trained: 1,000)")
    if options["lr"] == "666":
        sys.exit("the reason")
    if options["lr"] == "777":
        print('now | INFO | train_inner | {"num_updates": "1", "wps": "0"}')
        folder = Path(options["save-dir"])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "crash.pt").touch()
        sys.exit("Traceback\nFloatingPointError: gradients are Nan/Inf")
    folder = Path(options.get("save-dir", ""))
    last = folder / "checkpoint_last.pt"
    done = int(last.read_text()) if last.exists() and "save-dir" in options else 0
    if done:
        print(f"Loaded checkpoint {last} @ {done} updates")
    for update in range(done + 1, int(options["max-update"]) + 1):
        stats = {"epoch": 1, "loss": "3", "wps": str(100 * update), "num_updates": str(update)}
        print(f"now | INFO | train_inner | {json.dumps(stats)}", flush=True)
        ends_interval = update % int(options.get("save-interval-updates", update + 1)) == 0
        if (update % EPOCH == 0 or ends_interval) and "save-dir" in options:
            folder.mkdir(parents=True, exist_ok=True)
            # With intervals, every second one is within an epoch.
            epoch = 2 * EPOCH if "save-interval-updates" in options else EPOCH
            ends_epoch = update % epoch == 0 and "--no-epoch-checkpoints" not in arguments
            names = [f"checkpoint{update // EPOCH}.pt"] * ends_epoch
            names += [f"checkpoint_1_{update}.pt"] * ends_interval
            names += ["checkpoint_best.pt", last.name]
            for name in names:
                path = folder / name
                # Whole at every moment, like fairseq's: a signal may end this program.
                partial = path.with_suffix(".tmp")
                partial.write_text(str(update))
                partial.replace(path)
            # The name of the first copy only.
            print(f"Saved checkpoint {folder / names[0]} (epoch 1 @ {update} updates, score 3)")
            stats = {"valid_loss": options["lr"], "valid_num_updates": str(update)}
            print(f"now | INFO | valid | {json.dumps(stats)}", flush=True)
            while Path("wait").exists():
                time.sleep(0.01)
    print("done training in 1.0 seconds")


def convs2s(arguments, options):
    """Write the names of the checkpoints."""
    inputs = arguments[arguments.index("--inputs") + 1 : arguments.index("--output")]
    Path(options["output"]).write_text(" ".join(Path(path).name for path in inputs))


def fairseq_generate(arguments, options):
    """Translate a sentence with its source, in the opposite order; sentence 1 is missing.

    With --beam 7, translations are right.
    """
    assert all(Path(path).exists() for path in options["path"].split(":"))
    prefix = f"{arguments[0]}/{options['gen-subset']}"
    pairs = [Path(f"{prefix}.{side}").read_text().splitlines() for side in ("source", "target")]
    for number, (source, target) in reversed(list(enumerate(zip(*pairs)))):
        print(f"S-{number}\t{source}\nT-{number}\t{target}")
        if number != 1:
            best = target if options.get("beam") == "7" else source
            print(f"H-{number}\t-0.5\t{best}\nH-{number}\t-0.7\tworse")
    bleu = 10 + ("--unnormalized" in arguments)
    print(f"Generate with beam=2: BLEU4 = {bleu:.2f}, 1/2/3/4")
    print("Translated 3 sentences (9 tokens) in 0.1s (30.00 sentences/s, 90.0 tokens/s)")


if __name__ == "__main__":
    main(Path(sys.argv[0]).name, sys.argv[1:])
