"""Learn the pronunciation of words in several languages, and compare with published systems.

FOLDER has the files of SIGMORPHON 2020, task 1: LANGUAGE_train.tsv, LANGUAGE_dev.tsv and
LANGUAGE_test.tsv with a word, a tab and its phones on each line. They may be in folders inside it,
and compressed. The same command continues what was interrupted.

With --multilingual, one model reads the code of the language and a space before the word. With
--continued, the training of these models is continued on each language.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from convs2s.common.errors import UserError
from convs2s.common.output_files import atomic_write
from convs2s.common.programs import find_program
from convs2s.common.signals import exit_on_signals
from convs2s.common.tables import Table, number
from convs2s.common.text_files import read_sentences

HERE = Path(__file__).resolve().parent
SPLITS = {"train": "train", "valid": "dev", "test": "test"}
FILE = re.compile(r"([\w-]+)_(train|dev|test)\.tsv(\.gz|\.bz2|\.xz|\.zst)?")
# Macro-averages of word error rates on the test sets of all 15 languages.
PUBLISHED = {
    "LSTM of the organizers": 16.84,
    "Transformer of the organizers": 17.5,
    "multilingual Transformers with self-training": 14.99,
    "best submission, with ensembles": 13.81,
}
# File of an experiment -> its folder in the output folder.
FOLDERS = {
    "benchmark.yaml": "experiment",
    "multilingual.yaml": "multilingual",
    "continued.yaml": "continued",
}
CONVS2S = find_program("convs2s")
# Options of `convs2s prepare`: no word is dropped, however much longer or shorter its
# pronunciation is.
PREPARE = ["--source-lang", "word", "--target-lang", "phones", "--keep-duplicates"]
PREPARE += ["--max-ratio", "100", "--workers", "1", "--quiet"]
# The letters of a word, and its phones unchanged.
TOKENS = ["--tokenizer", "letters/none", "--separate"]


def find_files(folder: Path) -> dict[str, dict[str, Path]]:
    """The files of each language: language -> split -> path.

    Raises:
        UserError: if there are none, or two of the same language and split.
    """
    found: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.rglob("*.tsv*")):
        match = FILE.fullmatch(path.name)
        if match:
            other = found.setdefault(match[1], {}).setdefault(match[2], path)
            if other != path:
                raise UserError(
                    f"{other} and {path} are both {match[1]}_{match[2]}.tsv: give a folder with "
                    "one of them."
                )
    if not found:
        raise UserError(f"{folder} has no files such as ady_train.tsv: give the task's data.")
    return found


def prepare(files: dict[str, Path], out: Path, like: Path | None = None) -> None:
    """Prepare the words of a language; `convs2s prepare` keeps what it has prepared of them.

    Args:
        files: split -> file.
        out: the folder to write.
        like: an earlier preparation, whose dictionaries are used.
    """
    texts = [str(part) for name, split in SPLITS.items() for part in (f"--{name}", files[split])]
    tokens = TOKENS if like is None else ["--like", str(like)]
    command = [*CONVS2S, "prepare", *texts, "--out", str(out), *PREPARE, *tokens]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def join(files: dict[str, dict[str, Path]], languages: list[str], out: Path) -> dict[str, Path]:
    """Write the words of all languages, each after the code of its language: split -> file.

    Lines without a word are left out. A file that has all others is left as it is: `convs2s
    prepare` sees that it has not changed.
    """
    out.mkdir(parents=True, exist_ok=True)
    joined = {}
    for split in SPLITS.values():
        joined[split] = out / f"{split}.tsv"
        words = "".join(
            f"{language} {line}\n"
            for language in languages
            for line in read_sentences(str(files[language][split]))
            if line.partition("\t")[0].strip()
        )
        if not joined[split].exists() or joined[split].read_text(encoding="utf-8") != words:
            with atomic_write(str(joined[split])) as file:
                file.write(words)
    return joined


def run(command: list[str], folder: Path | None = None) -> int:
    """The exit code of a command, which Ctrl-C reaches too and which ends in its own time."""
    process = subprocess.Popen(command, cwd=folder)
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue
        except SystemExit:
            # Another signal, which ends this process alone.
            process.terminate()
            process.wait()
            raise


def comparison(results: Path, is_complete: bool) -> str:
    """A table with the systems of the experiment and, on all languages, the published ones."""
    content = json.loads(results.read_text(encoding="utf-8"))
    rates = dict(PUBLISHED) if is_complete else {}
    for system, title in content["systems"].items():
        runs = [
            run["splits"]["test"]["wer"]
            for run in content["results"]
            if run["system"] == system and run["trial"] is None and "test" in run["splits"]
        ]
        if runs:
            rates[f"{title} (here)"] = sum(runs) / len(runs)
    rows = [[name, number(rate)] for name, rate in sorted(rates.items(), key=lambda row: row[1])]
    return Table(["System", "WER"], rows).markdown()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0],
        allow_abbrev=False,
        epilog="Further options are those of `convs2s experiment`: --jobs 2, --systems NAME, ...",
    )
    parser.add_argument("data", metavar="FOLDER", type=Path, help="the task's data")
    parser.add_argument("--out", type=Path, default=Path("pronunciation_out"), help="output folder")
    parser.add_argument("--languages", nargs="+", metavar="NAME", help="only these, such as ady")
    models = parser.add_mutually_exclusive_group()
    models.add_argument("--multilingual", action="store_true", help="one model for all languages")
    text = "continue the models of --multilingual on each language"
    models.add_argument("--continued", action="store_true", help=text)
    args, options = parser.parse_known_args()
    files = find_files(args.data)
    all_languages = yaml.safe_load((HERE / "benchmark.yaml").read_text("utf-8"))["data"]["sets"]
    languages = [*dict.fromkeys(args.languages or all_languages)]
    for language in languages:
        if language not in files:
            raise UserError(
                f"{args.data} has no language {language}: choose {', '.join(files)} (--languages)."
            )
        missing = [split for split in SPLITS.values() if split not in files[language]]
        if missing:
            names = " and no ".join(f"{language}_{split}.tsv" for split in missing)
            raise UserError(f"{args.data} has no {names}.")
    prepared = args.out / "prepared"
    try:
        prepared.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{args.out} cannot be written: {reason}. Give another --out.") from error
    text, of_all = args.out / "text", prepared / "multilingual"
    if args.multilingual:
        prepare(join(files, languages, text), of_all)
        file, data = "multilingual.yaml", ["prepared/multilingual"]
    elif args.continued:
        if not (args.out / "multilingual" / "runs").is_dir():
            raise UserError(
                f"{args.out} has no models to continue: train some with --multilingual."
            )
        (prepared / "continued").mkdir(exist_ok=True)
        for language in languages:
            words = join(files, [language], text / language)
            prepare(words, prepared / "continued" / language, of_all)
        file, data = "continued.yaml", ["prepared/continued/{set}", "--sets", *languages]
    else:
        for language in languages:
            prepare(files[language], prepared / language)
        file, data = "benchmark.yaml", ["prepared/{set}", "--sets", *languages]
    out = FOLDERS[file]
    # In this folder, continued.yaml finds the models that it names.
    command = [*CONVS2S, "experiment", str(HERE / file), "--prepared", *data, "--out", out]
    code = run([*command, *options], args.out)
    results = args.out / out / "results.json"
    if code == 0 and results.exists() and "--dry-run" not in options:
        print(comparison(results, set(languages) == set(all_languages)))
        if not args.multilingual:
            picture = "errors.png" if out == "experiment" else f"{out}_errors.png"
            command = [*CONVS2S, "plot", "sets", f"{out}/results.json", "--output", picture]
            code = run(command, args.out)
    return code


if __name__ == "__main__":
    try:
        with exit_on_signals():
            sys.exit(main())
    except UserError as error:
        sys.exit(f"run.py: error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    except KeyboardInterrupt:
        sys.exit(130)
