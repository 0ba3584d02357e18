"""Build the released models: train them as the examples do, make small copies, and pack the copies.

OUT gets a folder for each model, with the run that trained it, and OUT/release with the archives
and their manifest; it can be published unchanged. The manifest of this package is also written
again. The same command continues what was interrupted.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# The manifest of this checkout is written, not that of a package that is installed.
sys.path.insert(0, str(ROOT))

from convs2s.checkpoints.folders import CHECKPOINT_FILES  # noqa: E402
from convs2s.common.data_files import read_json  # noqa: E402
from convs2s.common.errors import UserError  # noqa: E402
from convs2s.common.output_files import atomic_path, atomic_write, write_lines  # noqa: E402
from convs2s.common.text_files import read_lines  # noqa: E402
from convs2s.text.preparation import (  # noqa: E402
    TEXT,
    Preparation,
    digest,
    write_preparation,
)
from convs2s.translation.released import (  # noqa: E402
    MANIFEST,
    RELEASED,
    Manifest,
    Model,
    read_manifest,
)

CONVS2S = [sys.executable, "-m", "convs2s"]
EXAMPLES = ROOT / "examples"
AVERAGE, *_ = CHECKPOINT_FILES
RESULT = "result.json"
# The most bytes of an archive.
MAX_BYTES = 8_000_000
OF_CAPTIONS = (
    "For research and education that are not commercial, as the captions of Multi30k that it was "
    "trained on. It knows descriptions of photographs, and writes lower case only."
)
OF_WORDS = (
    "It reads one word, after the code of its language and a space. 3,600 words a language teach "
    "it no rare spellings and few names."
)


@dataclass(frozen=True)
class Recipe:
    """How a model is made.

    Attributes:
        title, languages, license, limits: as for ``released.Model``.
        command: trains it; "OUT" is replaced by the folder of its output, and "TEXT" by the option
            or the argument with its text.
        text: the option of this program that names the folder of its text.
        run: the folder of the run in OUT.
        prepared: the folder of the preparation in OUT; None if the experiment split tokenized text
            into sub-words.
        metrics: metrics of ``convs2s evaluate``.
        lenpen: the length penalty that was best on the validation text.
    """

    title: str
    languages: tuple[str, ...]
    license: str
    limits: str
    command: Sequence[str]
    text: str
    run: str
    prepared: str | None = None
    metrics: str = "bleu,chrf"
    lenpen: float = 1.0


RECIPES = {
    "multi30k-de-en": Recipe(
        "captions of photographs, from German to English",
        ("de", "en"),
        "non-commercial research and education",
        OF_CAPTIONS,
        [
            *(*CONVS2S, "experiment", str(EXAMPLES / "distillation" / "multi30k.yaml"), "TEXT"),
            *("--systems", "teacher", "backward", "diversified_longer", "--out", "OUT"),
        ],
        "multi30k",
        "runs/diversified_longer.1",
        lenpen=1.5,
    ),
    "multi30k-en-de": Recipe(
        "captions of photographs, from English to German",
        ("en", "de"),
        "non-commercial research and education",
        OF_CAPTIONS,
        [
            *(*CONVS2S, "experiment", str(EXAMPLES / "multi30k" / "regularized.yaml"), "TEXT"),
            *("--source", "en", "--target", "de", "--systems", "plain", "--out", "OUT"),
        ],
        "multi30k",
        "runs/plain.1",
        lenpen=1.5,
    ),
    "pronunciation": Recipe(
        "phones of words in 15 languages",
        tuple("ady arm bul dut fre geo gre hin hun ice jpn kor lit rum vie".split()),
        "cc-by-sa-3.0",
        OF_WORDS,
        [
            *(sys.executable, str(EXAMPLES / "pronunciation" / "run.py"), "TEXT"),
            *("--multilingual", "--systems", "cnn_self_att", "--out", "OUT"),
        ],
        "sigmorphon",
        "multilingual/runs/cnn_self_att.1",
        "prepared/multilingual",
        metrics="wer,per",
    ),
}


def train(recipe: Recipe, text: Path | None, out: Path) -> None:
    """Train a model, or continue where an earlier run ended.

    Args:
        recipe: recipe of the model.
        text: the folder of its text; None downloads it, if the experiment has an address.
        out: the output folder.
    """
    given = ["--download"] if text is None else [str(text)]
    if recipe.text != "sigmorphon" and text is not None:
        given = ["--text", *given]
    words = {"TEXT": given, "OUT": [str(out)]}
    command = [part for word in recipe.command for part in words.get(word, [word])]
    subprocess.run(command, check=True, cwd=ROOT)


def prepare_captions(data: Path, folder: Path, languages: Sequence[str]) -> None:
    """Write the preparation of raw text for a model of tokenized captions, and raw test text.

    Args:
        data: the folder ``data`` of its experiment.
        folder: the folder to write to.
        languages: source and target.
    Raises:
        UserError: if the tokens of a line of the raw text would not be those of the captions.
    """
    for name in (*(f"data-bin/dict.{language}.txt" for language in languages), "codes.bpe"):
        shutil.copyfile(data / name, folder / Path(name).name)
    files = dict.fromkeys(("source", "target"), "codes.bpe")
    subwords = {"method": "subword_nmt", "files": files}
    arguments = (folder, "models/build.py", languages, "moses_scripts", True, subwords, ".", {})
    write_preparation(*arguments)
    preparation = Preparation.read(folder)
    # The test text of 2016 is the first one.
    test, *_ = read_json(data / "data.json")["tests"]
    (folder / TEXT).mkdir()
    for side in (preparation.source, preparation.target):
        path = str(data / TEXT / f"{test}.{side.language}")
        lines = [line.rstrip("\n") for line in read_lines(path)]
        raw = [side.tokenizer.detokenize(line) for line in lines]
        for line, text in zip(lines, raw):
            if side.tokenizer.tokenize(side.normalize(text)) != line:
                raise UserError(f"The tokens of '{text}' are not those of Multi30k: '{line}'.")
        write_lines(str(folder / TEXT / f"test.{side.language}"), raw)


def export(name: str, recipe: Recipe, out: Path, folder: Path) -> Path:
    """Write a trained model in 8 bits, with its preparation and its card, as ``convs2s export``.

    Args:
        name: name of the model.
        recipe: recipe of the model.
        out: the output folder of its experiment.
        folder: an empty folder to write to.
    Returns:
        The folder of the model.
    """
    prepared = folder / "prepared"
    if recipe.prepared is None:
        prepared.mkdir()
        prepare_captions(out / "data", prepared, recipe.languages)
    else:
        shutil.copytree(out / recipe.prepared, prepared, ignore=shutil.ignore_patterns("tokens"))
    shutil.copyfile(out / recipe.run / RESULT, prepared / RESULT)
    small, model = str(prepared / "model.pt"), folder / name
    subprocess.run([*CONVS2S, "quantize", str(out / recipe.run / AVERAGE), small], check=True)
    options = ["--lenpen", str(recipe.lenpen), "--no-speed", "--metrics", recipe.metrics]
    options += ["--license", recipe.license, "--limits", recipe.limits]
    subprocess.run([*CONVS2S, "export", small, str(model), *options], check=True)
    return model


def pack(folder: Path, archive: Path) -> None:
    """Pack the folder of a model; the same files make the same archive, bit by bit.

    Args:
        folder: the folder, whose name is that of the model.
        archive: the file to write.
    """

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.isdir() else 0o644
        return member

    # Members of a folder are added in the order of their names.
    with (
        atomic_path(str(archive)) as partial,
        lzma.open(partial, "wb", preset=9) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        packed.add(folder, folder.name, filter=plain)


def described(recipe: Recipe, archive: Path) -> Model:
    """The entry of a model in the manifest.

    Raises:
        UserError: if its archive is too large.
    """
    size = archive.stat().st_size
    if size > MAX_BYTES:
        raise UserError(f"{archive} has {size:,} bytes, but at most {MAX_BYTES:,} are released.")
    return Model(
        title=recipe.title,
        languages=list(recipe.languages),
        file=archive.name,
        size=size,
        sha256=digest(archive),
        license=recipe.license,
        limits=recipe.limits,
    )


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest."""
    content: dict[str, Any] = manifest.model_dump()
    with atomic_write(str(path)) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def build(name: str, text: Path | None, trained: Path | None, out: Path) -> Model:
    """Train a model unless that is done, and pack it.

    Args:
        name: name of the model.
        text: as for ``train``.
        trained: the output folder of an experiment that trained it; None to train it.
        out: the output folder.
    Returns:
        Its entry in the manifest.
    """
    recipe, folder, archive = RECIPES[name], out / name, out / "release" / f"{name}.tar.xz"
    if trained is None:
        trained = folder / "trained"
        trained.mkdir(parents=True, exist_ok=True)
        train(recipe, text, trained)
    exported = folder / "exported"
    shutil.rmtree(exported, ignore_errors=True)
    exported.mkdir(parents=True)
    pack(export(name, recipe, trained, exported), archive)
    return described(recipe, archive)


def main() -> int:
    """Build the models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=Path("models_out"), help="output folder")
    parser.add_argument("--models", nargs="+", choices=RECIPES, default=[*RECIPES])
    text = "folder of Multi30k, task 1, in tokens (default: download it)"
    parser.add_argument("--multi30k", type=Path, metavar="FOLDER", help=text)
    text = "folder of the pronunciations of SIGMORPHON 2020, task 1"
    parser.add_argument("--sigmorphon", type=Path, metavar="FOLDER", help=text)
    text = "output folder of the experiment that trained a model, which is not trained again"
    parser.add_argument("--trained", action="append", default=[], metavar="NAME=OUT", help=text)
    args = parser.parse_args()
    trained = {}
    for given in args.trained:
        name, _, folder = given.partition("=")
        if name not in RECIPES or not Path(folder).is_dir():
            raise UserError(f"--trained is {given}: give NAME=OUT, a model and a folder.")
        if name not in args.models:
            raise UserError(f"--trained has {name}, which is not built: name it with --models.")
        recipe = RECIPES[name]
        for needed in (Path(folder, recipe.run, file) for file in (AVERAGE, RESULT)):
            if not needed.is_file():
                raise UserError(
                    f"--trained is {given}, but there is no {needed}: give the output folder of "
                    "the experiment that trained the model."
                )
        trained[name] = Path(folder).resolve()
    texts = {name: getattr(args, RECIPES[name].text) for name in args.models}
    for name, text in texts.items():
        if text is not None and not text.is_dir():
            raise UserError(f"There is no folder {text} (--{RECIPES[name].text}).")
        if text is None and name not in trained and RECIPES[name].text == "sigmorphon":
            raise UserError("The pronunciations cannot be downloaded: give --sigmorphon FOLDER.")
    out = args.out.resolve()
    (out / "release").mkdir(parents=True, exist_ok=True)
    for name in args.models:
        text = texts[name] and texts[name].resolve()
        model = build(name, text, trained.get(name), out)
        manifest = read_manifest(RELEASED)
        models = {**manifest.models, name: model}
        ordered = {each: models[each] for each in RECIPES if each in models}
        manifest = manifest.model_copy(update={"models": ordered})
        for path in (RELEASED, out / "release" / MANIFEST):
            write_manifest(manifest, path)
        print(f"{model.file}: {model.size:,} bytes, SHA-256 {model.sha256}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UserError as error:
        sys.exit(f"build.py: error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
