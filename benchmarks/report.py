"""A comparison as text."""

MILLI = 1000


def report(result: dict) -> str:
    """What was measured, as Markdown: times in milliseconds, memory, matrix products."""
    parts = []
    if "seconds" in result:
        parts.append("\n".join(_times(result)))
    if "products" in result:
        parts += _products(result)
    if "bytes" in result:
        ours, peer = result["bytes"]["ours"], result["bytes"]["peer"]
        text = f"Peak memory: {mebibytes(ours)}, peer {mebibytes(peer)}"
        parts.append(f"{text} ({ours / peer:.2f} of it)." if peer else f"{text}.")
    return "\n\n".join(parts)


def _times(result: dict) -> list[str]:
    lines = ["| | median | minimum | maximum |", "|---|---|---|---|"]
    seconds = result["seconds"]
    for label, name, scale, unit in (
        (side_name(result["ours"]), "ours", MILLI, " ms"),
        (side_name(result["peer"]), "peer", MILLI, " ms"),
        ("ratio (peer's time / ours)", "ratio", 1, ""),
    ):
        cells = [f"{seconds[name][key] * scale:.2f}{unit}" for key in seconds[name]]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def _products(result: dict) -> list[str]:
    lines = []
    for side in ("ours", "peer"):
        products = result["products"][side]
        share, rate = products["share"]["median"], products["flops_per_second"]["median"]
        text = (
            f"{side_name(result[side])}: {products['flops'] / 1e9:,.1f} GFLOP of matrix products; "
            f"at the {rate / 1e9:,.0f} GFLOP/s of a large one they alone would take {share:.0%} of "
            "this time"
        )
        if products["not_counted"]:
            text += f" (not counted: {', '.join(products['not_counted'])})"
        lines.append(f"{text}.")
    return lines


def side_name(side: dict) -> str:
    """One side of a comparison: its architecture, and its precision where that is not single."""
    dtype = side["dtype"]
    return f"`{side['arch']}`" + ("" if dtype == "float32" else f" ({dtype})")


def mebibytes(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / 2**20:,.0f} MiB"


def rates(result: dict) -> str:
    """What ``speed`` measured, in Markdown."""
    lines = ["| | sentences/s | minimum | maximum |", "|---|---|---|---|"]
    for name, rate in result["sentences_per_second"].items():
        cells = [f"{rate[key]:,.1f}" for key in ("median", "minimum", "maximum")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)
