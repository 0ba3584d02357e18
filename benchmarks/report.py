"""A comparison as text."""

from convs2s.common.tables import markdown_table

from .setting import CTRANSLATE2, ONNXRUNTIME, TORCH

MILLISECONDS = 1000
ENGINES = {ONNXRUNTIME: " in ONNX Runtime", CTRANSLATE2: " in CTranslate2"}


def report(result: dict) -> str:
    """A result in Markdown: rates, or times in milliseconds, matrix multiplications and memory."""
    table = measured_table(result)
    if table is not None:
        return table
    if "peak_bytes" in result:
        return preparation_text(result)
    parts = []
    if "seconds" in result:
        parts.append(_times(result))
    if "matmul" in result:
        parts += _matmul(result)
    if "bytes" in result:
        ours, peer = result["bytes"]["ours"], result["bytes"]["peer"]
        text = f"Peak memory: {mebibytes(ours)}, peer {mebibytes(peer)}"
        parts.append(f"{text} (ratio {ours / peer:.2f})." if peer else f"{text}.")
    return "\n\n".join(parts)


def preparation_text(result: dict) -> str:
    """What ``prepare`` measured: a sentence, and a table of the stages."""
    pairs = result["pairs"]
    rows = [
        (
            name,
            f"{stage['seconds'] / pairs * 1e6:,.1f}",
            mebibytes(stage["peak_bytes"]),
            f"{stage['disk_bytes'] / pairs * 1e6 / 2**20:,.0f}",
        )
        for name, stage in result["stages"].items()
    ]
    titles = ("stage", "µs of processor time a pair", "memory", "MiB on disk a million pairs")
    words = " and ".join(f"{number:,}" for number in result["different_words"].values())
    return (
        f"{pairs:,} pairs, {mebibytes(result['bytes_of_text'])} of text, {words} "
        f"different words: at most {mebibytes(result['peak_bytes'])}, "
        f"{result['minutes']:.1f} minutes.\n\n{markdown_table(titles, rows)}"
    )


def _times(result: dict) -> str:
    seconds = result["seconds"]
    rows = [
        (label, *(f"{seconds[name][key] * scale:.2f}{unit}" for key in seconds[name]))
        for label, name, scale, unit in (
            (side_name(result["ours"]), "ours", MILLISECONDS, " ms"),
            (side_name(result["peer"]), "peer", MILLISECONDS, " ms"),
            ("ratio (peer's time / ours)", "ratio", 1, ""),
        )
    ]
    return markdown_table(("", "median", "minimum", "maximum"), rows)


def _matmul(result: dict) -> list[str]:
    lines = []
    for side in ("ours", "peer"):
        matmul = result["matmul"][side]
        share, rate = matmul["share"]["median"], matmul["flops_per_second"]["median"]
        text = (
            f"{side_name(result[side])}: {matmul['flops'] / 1e9:,.1f} GFLOP of matrix "
            f"multiplications. At the {rate / 1e9:,.0f} GFLOP/s of a large matrix multiplication, "
            f"they would take {share:.0%} of the time"
        )
        if matmul["not_counted"]:
            text += f" (not counted: {', '.join(matmul['not_counted'])})"
        lines.append(f"{text}.")
    return lines


def side_name(side: dict) -> str:
    """The architecture of one side; its engine unless that is torch, its type unless float32."""
    dtype, engine = side["dtype"], ENGINES.get(side.get("engine", TORCH), "")
    return f"`{side['arch']}`{engine}" + ("" if dtype == "float32" else f" ({dtype})")


def mebibytes(size: int) -> str:
    """A number of bytes as MiB."""
    return f"{size / 2**20:,.0f} MiB"


def measured_table(result: dict) -> str | None:
    """What a command measured that has a table of its own; None for others."""
    for key, table in (
        ("sentences_per_second", speed_table),
        ("commands", commands_table),
        ("relative_times", families_table),
        ("relative_rates", systems_table),
        ("relative_to_attention", layers_table),
    ):
        if key in result:
            return table(result)
    return None


def speed_table(result: dict) -> str:
    """The BLEU and the rates that ``speed`` measured, in Markdown."""
    rows = [
        (
            name,
            f"{result['bleu'][name]:.2f}",
            _with_range(rate, 1),
            _with_range(result["tokens_per_second"][name], 0),
        )
        for name, rate in result["sentences_per_second"].items()
    ]
    return markdown_table(("model", "BLEU", "sentences/s", "tokens/s"), rows)


def commands_table(result: dict) -> str:
    """What ``translate`` measured, in Markdown."""
    rows = []
    for measured in result["commands"]:
        lines = f"{measured['lines']:,}"
        for name, seconds in measured["seconds"].items():
            ratio = measured["times_as_fast"].get(name)
            as_fast = _with_range(ratio, 2) if ratio else ""
            rows.append((lines, f"`{name}`", _with_range(seconds, 2), as_fast))
    text = f"Beam {result['beam']}"
    if different := sum(measured["different"] for measured in result["commands"]):
        text += f"; different translations: {different:,}"
    return f"{markdown_table(('lines', 'command', 'seconds', 'times as fast'), rows)}\n\n{text}."


def families_table(result: dict) -> str:
    """The times and the memory that ``families`` measured, in Markdown."""
    titles = ["work", "family", *(f"{length} tokens" for length in result["lengths"])]
    rows = [
        (what, family, *map(cell, values))
        for what, by_family, cell in (
            ("training step", result["relative_times"]["train"], _relative),
            ("beam search", result["relative_times"]["generate"], _relative),
            ("memory of training", result["peak_bytes_of_training"], mebibytes),
        )
        for family, values in by_family.items()
    ]
    return markdown_table(titles, rows)


def layers_table(result: dict) -> str:
    """The times that ``layers`` measured, in Markdown."""
    works = result["relative_to_attention"]
    titles = [
        f"{work}, {sentences} x {length}" for work in works for sentences, length in result["sizes"]
    ]
    names = next(iter(works.values()))
    rows = [
        (f"`{name}`", *(_with_range(ratio, 2) for work in works.values() for ratio in work[name]))
        for name in names
    ]
    return markdown_table(("layer", *titles), rows)


def systems_table(result: dict) -> str:
    """The speeds that ``systems`` measured, in Markdown."""
    training, translation = (
        result["relative_rates"][unit] for unit in ("tokens_per_second", "sentences_per_second")
    )
    rows = [
        (title, _with_range(ratio, 2), _with_range(translation[title], 2))
        for title, ratio in training.items()
    ]
    return markdown_table(("model", "training", "translation"), rows)


def _relative(ratio: dict) -> str:
    return f"{ratio['median']:.1f}"


def _with_range(values: dict, digits: int) -> str:
    median, least, most = (f"{values[key]:,.{digits}f}" for key in ("median", "minimum", "maximum"))
    return f"{median} ({least} to {most})"
