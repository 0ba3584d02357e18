"""Tables of the documentation, written from files of results.

A page marks the place of a table with two comments, and the table stands between them::

    <!-- table of benchmarks/results/cpu.json -->
    <!-- end of table -->
"""

import json
import re
from pathlib import Path
from textwrap import fill

from convs2s.common.output_files import atomic_write
from convs2s.common.tables import markdown_table

from . import growth_report
from .operations import COLUMNS
from .report import measured_table, mebibytes, side_name
from .workloads import SEQUENCE_CANDIDATES

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted(DOCS.glob("*.md")))

# The longest line of a page, tables excepted.
WIDTH = 112
MARKED_TABLE = re.compile(
    r"(<!-- table of (?P<path>[\w/]+\.json) -->\n).*?(<!-- end of table -->)",
    re.DOTALL,
)


def comparison_table(results: dict[str, dict]) -> str:
    """The results of ``table`` as a table, and the machines they were measured on.

    Args:
        results: row name -> result.
    """
    memory, operations = (
        any(key in result for result in results.values()) for key in ("bytes", "operations")
    )
    titles = ["work", "peer", "times as fast", "share of matrix multiplication: ours, peer"]
    titles += [f"our time (%): {', '.join(COLUMNS)}"] * operations
    titles += ["peak memory: ours, peer"] * memory
    rows = [_cells(name, result, operations, memory) for name, result in results.items()]
    machines = {
        _machine(result["machine"]): None for result in results.values() if "error" not in result
    }
    measured = "\n".join(map(_measured_on, machines))
    return f"{markdown_table(titles, rows)}\n\n{measured}"


def _cells(name: str, result: dict, operations: bool, memory: bool) -> list[str]:
    if "error" in result:
        message = result["error"].replace("|", "\\|")
        return [name, "", f"failed: {message}", ""] + [""] * (operations + memory)
    ours, peer, ratio = result["ours"], result["peer"], result["seconds"]["ratio"]
    is_sequence = result["work"] == "sequence"
    work = "update of" if is_sequence else result["work"]
    cells = [
        f"{work} {side_name(ours)}, {sizes(result['work'], ours)}",
        f"{SEQUENCE_CANDIDATES} token-level updates" if is_sequence else side_name(peer),
        f"{ratio['median']:.2f} ({ratio['minimum']:.2f} to {ratio['maximum']:.2f})",
        ", ".join(_share(result["matmul"][side]) for side in ("ours", "peer")),
    ]
    if operations:
        found = result.get("operations", {}).values()
        cells.append(", ".join(f"{100 * share:.0f}" for share in found))
    if memory:
        cells.append(", ".join(map(mebibytes, result.get("bytes", {}).values())))
    return cells


def sizes(work: str, side: dict) -> str:
    """Batch and vocabulary of one side, and the beam and candidates of generation."""
    text = f"{side['sentences']} x {side['length']} tokens, vocabulary {side['words']:,}"
    if work == "generate":
        text += f", beam {side['beam']}"
    if work == "sequence":
        text += f", {SEQUENCE_CANDIDATES} candidate translations of each sentence"
    if side["candidates"] is not None:
        text += f", {side['candidates']:,} candidates"
    return text


def _share(matmul: dict) -> str:
    # The share of an incomplete count would be misleading.
    return "not counted" if matmul["not_counted"] else f"{matmul['share']['median']:.0%}"


def _measured_on(machine: str) -> str:
    """The line below a table that names a machine."""
    return fill(f"Measured on {machine}.", WIDTH, break_on_hyphens=False)


def _machine(machine: dict) -> str:
    versions = [f"Python {machine['python']}", f"torch {machine['torch']}", machine["fairseq"]]
    return f"{machine['device']}, {machine['threads']} threads, {', '.join(versions)}"


def results_table(path: Path) -> str:
    """The table of a file of results, or "" if there is no such file."""
    if not path.exists():
        return ""
    result = json.loads(path.read_text(encoding="utf-8"))
    table = growth_report.table(result) if "curves" in result else measured_table(result)
    if table is None:
        return comparison_table(result) + "\n"
    measured = _measured_on(_machine(result["machine"]))
    return f"{table}\n\n{measured}\n"


def updated(text: str) -> str:
    """The text of a page with its marked tables written again."""
    return MARKED_TABLE.sub(
        lambda match: f"{match[1]}{results_table(ROOT / match['path'])}{match[3]}", text
    )


def write() -> None:
    """Write the marked tables of all pages."""
    for page in PAGES:
        old = page.read_text(encoding="utf-8")
        new = updated(old)
        if new != old:
            with atomic_write(str(page)) as file:
                file.write(new)
