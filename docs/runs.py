"""The runs in ``results``: a line of JSON a run, and an archive of the translations.

    python docs/runs.py publish NAME OUT    # writes results/NAME.* from an output folder
    python docs/runs.py unpack NAME OUT     # makes an output folder in which these runs are done

OUT is a folder of ``convs2s experiment``. ``results/README.md`` says what NAME is, and describes
the files.
"""

import argparse
import json
import shutil
import sys
import tarfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "results"
# What a line has of a run's folder. The other JSON files there repeat parts of the result.
PARTS = ("settings", "result")


def name_of(file: str, direction: str = "") -> str:
    """The name in ``results`` of an experiment.

    Args:
        file: the path of its file in ``examples``.
        direction: its languages, such as ``en_de``, if they are not the file's.
    """
    name = file.removesuffix(".yaml").replace("/", "_")
    return f"{name}_{direction}" if direction else name


def read(name: str) -> dict[str, dict[str, Any]]:
    """The published runs of an experiment.

    Args:
        name: the name in ``results``.
    Returns:
        The name of a run -> its ``result`` and ``settings``, as in the files of its folder. A
        trial for which the round before left no options has no settings.
    Raises:
        FileNotFoundError: if there are no such runs.
    """
    path = RESULTS / f"{name}.jsonl"
    if not path.exists():
        names = ", ".join(sorted(other.stem for other in RESULTS.glob("*.jsonl")))
        raise FileNotFoundError(f"There are no runs called {name} in {RESULTS}: choose {names}.")
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {line.pop("run"): line for line in lines}


def publish(name: str, out: Path) -> None:
    """Write the finished runs of an experiment to ``results``, in place of earlier ones.

    Args:
        name: the name in ``results``.
        out: the output folder of the experiment.
    Raises:
        FileNotFoundError: if no run is finished, or a finished run lacks a translation.
    """
    folders = sorted(path.parent for path in out.glob("runs/**/result.json"))
    if not folders:
        raise FileNotFoundError(f"{out} has no finished runs: name a folder of an experiment.")
    lines, texts = [], set()
    for folder in folders:
        files = {part: folder / f"{part}.json" for part in PARTS}
        run = {part: _read(path) for part, path in files.items() if path.exists()}
        run_name = folder.relative_to(out / "runs")
        lines.append(json.dumps({"run": run_name.as_posix(), **run}) + "\n")
        for split in run["result"]["splits"]:
            if split != "valid":
                references = out / "references" / run_name.parent / split
                texts |= {folder / f"{split}.hyp", references}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    _pack(_archive(name), out, sorted(texts))
    speeds = RESULTS / f"{name}.speed.json"
    speeds.unlink(missing_ok=True)
    if (out / "speed.json").exists():
        shutil.copyfile(out / "speed.json", speeds)


def unpack(name: str, out: Path) -> None:
    """Make an output folder of ``convs2s experiment`` in which the published runs are done.

    Args:
        name: the name in ``results``.
        out: the folder; it may have data, but no runs.
    Raises:
        FileNotFoundError: if there are no such runs.
        FileExistsError: if the folder has runs.
    """
    runs = read(name)
    if (out / "runs").exists():
        raise FileExistsError(f"{out} has runs, which are not overwritten: name another folder.")
    for run, parts in runs.items():
        folder = out / "runs" / run
        folder.mkdir(parents=True)
        for part, content in parts.items():
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (folder / f"{part}.json").write_text(text, encoding="utf-8")
    if _archive(name).exists():
        with tarfile.open(_archive(name)) as archive:
            archive.extractall(out, filter="data")
    speeds = RESULTS / f"{name}.speed.json"
    if speeds.exists():
        shutil.copyfile(speeds, out / "speed.json")


def _archive(name: str) -> Path:
    return RESULTS / f"{name}.hypotheses.tar.xz"


def _pack(path: Path, out: Path, texts: list[Path]) -> None:
    """Pack texts of an output folder. The bytes depend on their names and contents alone."""
    path.unlink(missing_ok=True)
    if texts:
        with tarfile.open(path, "w:xz", preset=9) as archive:
            for text in texts:
                # Owner, time and mode have tarfile's defaults.
                member = tarfile.TarInfo(text.relative_to(out).as_posix())
                member.size = text.stat().st_size
                with open(text, "rb") as file:
                    archive.addfile(member, file)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def main() -> None:
    """Carry out a command line; see the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("publish", "unpack"))
    parser.add_argument("name", metavar="NAME", help="name of the runs, such as multi30k_compare")
    parser.add_argument("out", metavar="OUT", type=Path, help="output folder of the experiment")
    args = parser.parse_args()
    try:
        {"publish": publish, "unpack": unpack}[args.action](args.name, args.out)
    except (FileNotFoundError, FileExistsError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
