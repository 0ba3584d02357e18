"""The tables of README.md, made from benchmarks/results."""

import json
import re
from pathlib import Path

from convs2s_plugin.text_files import write_whole

from .report import mebibytes, rates, side_name

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"

# A table stands between two of these, the first of which names its file.
BLOCK = re.compile(
    r"(<!-- table of benchmarks/results/(?P<name>\w+\.json) -->\n).*?(<!-- end of table -->)",
    re.DOTALL,
)


def table(results: dict[str, dict]) -> str:
    """Results as a table, with the machines that they were measured on.

    Args:
        results: of ``table``, by the name of the row.
    """
    memory = any("bytes" in result for result in results.values())
    titles = ["what", "against", "times as fast", "wanted", "products alone: ours, peer"]
    titles += ["peak memory: ours, peer"] * memory
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, result in results.items():
        cells = _cells(name, result, memory)
        lines.append(f"| {' | '.join(cells)} |")
    machines = {_machine(result["machine"]): None for result in results.values() if _done(result)}
    return "\n".join(lines + [""] + [f"Measured on {machine}." for machine in machines])


def _done(result: dict) -> bool:
    return "error" not in result


def _cells(name: str, result: dict, memory: bool) -> list[str]:
    wanted = "" if result["wanted"] is None else f"{result['wanted']:g}"
    if not _done(result):
        message = result["error"].replace("|", "\\|")
        return [name, "", f"failed: {message}", wanted, ""] + [""] * memory
    ours, peer, ratio = result["ours"], result["peer"], result["seconds"]["ratio"]
    what = f"{result['what']} {side_name(ours)}, {size(result['what'], ours)}"
    span = f"{ratio['median']:.2f} ({ratio['minimum']:.2f} to {ratio['maximum']:.2f})"
    shares = ", ".join(_share(result["products"][side]) for side in ("ours", "peer"))
    cells = [what, side_name(peer), span, wanted, shares]
    if memory:
        held = result.get("bytes", {}).values()
        cells.append(", ".join(mebibytes(number) for number in held))
    return cells


def size(what: str, side: dict) -> str:
    """The sizes of the work of one side."""
    words = f"{side['words']:,} words, {side['sentences']} x {side['length']}"
    if what == "generate":
        words += f", beam {side['beam']}"
    if side["candidates"] is not None:
        words += f", {side['candidates']:,} candidates"
    return words


def _share(products: dict) -> str:
    # A share of only some products says nothing.
    return "not counted" if products["not_counted"] else f"{products['share']['median']:.0%}"


def _machine(machine: dict) -> str:
    versions = [f"Python {machine['python']}", f"torch {machine['torch']}", machine["fairseq"]]
    return f"{machine['device']}, {machine['threads']} threads, {', '.join(versions)}"


def _body(result: dict) -> str:
    if "sentences_per_second" not in result:
        return table(result)
    return f"{rates(result)}\n\nMeasured on {_machine(result['machine'])}."


def updated(text: str) -> str:
    """A README whose tables are those of the files; a file that is not there has none."""

    def block(match: re.Match) -> str:
        path = RESULTS / match["name"]
        body = ""
        if path.exists():
            body = _body(json.loads(path.read_text(encoding="utf-8"))) + "\n"
        return f"{match[1]}{body}{match[3]}"

    return BLOCK.sub(block, text)


def write() -> None:
    """Put the tables into README.md."""
    text = updated(README.read_text(encoding="utf-8"))
    with write_whole(str(README)) as file:
        file.write(text)
