"""Write the tables of the pages: ``python docs/tables.py``.

A table stands between two comments of a page and is made here from the code or from results:

    <!-- generated: architectures convs2s -->
    ...
    <!-- end -->

The tables of benchmarks, which ``benchmarks/pages.py`` makes, are written too.
``python docs/tables.py --check`` writes nothing, and fails if a page is not current.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from textwrap import fill

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))

from benchmarks import pages  # noqa: E402
from convs2s.cli import flops  # noqa: E402
from convs2s.cli.commands import COMMANDS  # noqa: E402
from convs2s.common.tables import Table, markdown_table  # noqa: E402
from convs2s.experiments.comparison import Comparison  # noqa: E402
from convs2s.experiments.tables import data_set_table  # noqa: E402
from convs2s.models.adl import architectures as adl_architectures  # noqa: E402
from convs2s.models.adl.language.arguments import REQUIRED, Argument, Default, write_value  # noqa: E402
from convs2s.models.adl.language.registry import FORMS, entries  # noqa: E402
from convs2s.models.adl.language.spec import DECODER, ENCODER  # noqa: E402
from convs2s.models.adl.options import AdlOptions  # noqa: E402
from convs2s.models.convs2s.options import ConvS2SOptions  # noqa: E402
from convs2s.models.pervasive.options import PervasiveOptions  # noqa: E402
from convs2s_plugin.criterions.sequence_risk import ConvS2SSequenceRiskConfig  # noqa: E402
from convs2s_plugin.models.options import EMBEDDING_FILES  # noqa: E402
from convs2s_plugin.schedulers import ReduceLROnValidationConfig  # noqa: E402
from convs2s_plugin.tasks.translation import ConvS2STranslationConfig  # noqa: E402
from docs import hybrids, other_projects, proofs, published, results  # noqa: E402
from docs.generated import write_or_check  # noqa: E402

PAGES = (
    ROOT / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((ROOT / "examples").glob("**/README.md")),
)
TYPES = 40_000
OPTION_TITLES = ("option", "default", "meaning")

BLOCK = re.compile(
    r"(?P<start><!-- generated: (?P<name>[\w ]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def of_table(table: Table, code: int = 1) -> str:
    """A Markdown table whose first columns are code, and whose cells are Markdown already.

    Args:
        table: the table.
        code: number of these columns.
    """
    cells = [[cell and f"`{cell}`" for cell in row[:code]] + [*row[code:]] for row in table.rows]
    return markdown_table([f"`{table.headers[0]}`", *table.headers[1:]], cells)


def option_rows(config: type, leave_out: type | None = None) -> list[tuple[str, str, str]]:
    """The options of a dataclass, with their defaults.

    Args:
        config: the dataclass.
        leave_out: options of this dataclass are not listed.
    """
    known = {field.name for field in fields(leave_out)} if leave_out else set()
    found = []
    for field in fields(config):
        if field.name.startswith("_") or field.name in known or not field.metadata.get("help"):
            continue
        default = field.default
        shown = "" if default in (None, MISSING) else "off" if default is False else f"`{default}`"
        name = field.name.replace("_", "-")
        found.append((f"`--{name}`", shown, field.metadata["help"].replace("|", "\\|")))
    return found


def options(config: type, leave_out: type | None = None) -> str:
    """The options of a dataclass as a table; see ``option_rows``."""
    return markdown_table(OPTION_TITLES, option_rows(config, leave_out))


def network_options(config: type) -> str:
    """The options of a network, those of files of embeddings first."""
    files = [(f"`--{name.replace('_', '-')}`", "", text) for name, text in EMBEDDING_FILES.items()]
    return markdown_table(OPTION_TITLES, files + option_rows(config))


def layers() -> str:
    """Every layer of the language, with its arguments."""
    found = [(f"`{form}`", text, "") for form, text in FORMS.items()]
    for name, entry in sorted(entries().items()):
        signature = name
        if entry.arguments:
            signature += f"({', '.join(argument.name for argument in entry.arguments)})"
        defaults = "; ".join(
            f"`{argument.name}`: {default(argument)}" for argument in entry.arguments
        )
        found.append((f"`{signature}`", entry.summary, defaults))
    return markdown_table(("layer", "what it computes", "defaults"), found)


def default(argument: Argument) -> str:
    """What an argument is if it is not given."""
    if argument.default is REQUIRED:
        return "required"
    if isinstance(argument.default, Default):
        return argument.default.text
    return write_value(argument.default)


def commands() -> str:
    """The commands of ``convs2s``."""
    found = [(f"`convs2s {name}`", text) for name, text in COMMANDS.items()]
    return markdown_table(("command", "what it does"), found)


def options_of_commands() -> str:
    """Every command of ``convs2s``, and of its sub-commands, with its options."""
    sections = []
    for name, text in COMMANDS.items():
        parser = argparse.ArgumentParser(prog=f"convs2s {name}", add_help=False)
        import_module(f"convs2s.cli.{name.replace('-', '_')}").add_arguments(parser)
        sections.append(options_of(parser, 2, text))
    return "\n\n".join(sections)


def options_of(parser: argparse.ArgumentParser, level: int, text: str) -> str:
    """A section about one parser, and those of its sub-commands."""
    sections = [f"{'#' * level} {parser.prog}", fill(f"{text[0].upper()}{text[1:]}.", pages.WIDTH)]
    formatter = argparse.HelpFormatter(parser.prog)
    rows, inner = [], []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            inner += [
                options_of(sub, level + 1, helps[name]) for name, sub in action.choices.items()
            ]
        elif not isinstance(action, argparse._HelpAction) and action.help != argparse.SUPPRESS:
            names = ", ".join(action.option_strings) or action.metavar or action.dest
            value = formatter._format_args(action, action.dest.upper())
            shown = f"{names} {value}" if action.option_strings and value else names
            rows.append((f"`{shown}`", formatter._expand_help(action).replace("|", "\\|")))
    if rows:
        sections.append(markdown_table(("argument", "meaning"), rows))
    return "\n\n".join(sections + inner)


@cache
def multi30k() -> Comparison:
    """The comparison on Multi30k."""
    return results.finished("multi30k/compare.yaml")


def pronunciation() -> Comparison:
    """The published systems of the benchmark of 15 languages."""
    return results.finished("pronunciation/benchmark.yaml")


def of_data_sets(comparison: Comparison) -> str:
    """The scores on the test set of each data set."""
    return data_set_table(comparison, comparison.tests[0]).markdown().rstrip("\n")


def in_small(file: str, published: Mapping[str, str]) -> str:
    """The table of an experiment on Multi30k that repeats one of a paper."""
    return results.beside_published(results.finished(file), published)


GENERATORS: dict[str, Callable[[], str]] = {
    "architectures convs2s": lambda: of_table(flops.convs2s_table(TYPES)),
    "architectures pervasive": lambda: of_table(flops.pervasive_table(TYPES), code=2),
    "architectures adl": lambda: adl_architectures.table(adl_architectures.NAMED),
    "architectures hybrids": lambda: adl_architectures.table(adl_architectures.HYBRIDS),
    "options convs2s": lambda: network_options(ConvS2SOptions),
    "options pervasive": lambda: network_options(PervasiveOptions),
    "options adl": lambda: network_options(AdlOptions),
    "options task": lambda: options(ConvS2STranslationConfig, ConvS2STranslationConfig.__mro__[1]),
    "options sequence": lambda: options(
        ConvS2SSequenceRiskConfig, ConvS2SSequenceRiskConfig.__mro__[1]
    ),
    "options scheduler": lambda: options(ReduceLROnValidationConfig),
    "layers": layers,
    "commands": commands,
    "options of commands": options_of_commands,
    "properties": proofs.properties,
    "proofs encoder": lambda: proofs.table(ENCODER),
    "proofs decoder": lambda: proofs.table(DECODER),
    "multi30k in short": lambda: results.scores_in_short(multi30k()),
    "multi30k scores": lambda: results.scores(multi30k()),
    "multi30k trials": lambda: results.trials(multi30k()),
    "multi30k sequence training": lambda: results.continued("multi30k/sequence.yaml"),
    "multi30k sweep of convs2s": lambda: results.sweep(
        "multi30k/sweep_convs2s.yaml",
        {
            "multi30k_sweep_convs2s_3000": "3,000 BPE merges",
            "multi30k_sweep_convs2s_10000": "10,000 BPE merges",
        },
    ),
    "distillation": lambda: results.scores(results.finished("distillation/multi30k.yaml")),
    "distillation released": lambda: results.scores(results.finished("distillation/released.yaml")),
    "distillation other direction": lambda: results.scores(
        results.finished("distillation/released_en_de.yaml")
    ),
    "distillation same direction": lambda: results.scores(
        results.finished("distillation/released_de_en.yaml")
    ),
    "multi30k diversified": lambda: results.scores(results.finished("multi30k/diversified.yaml")),
    "multi30k regularized": lambda: results.by_architecture("multi30k/regularized.yaml"),
    "multi30k sweep of dropout": lambda: results.sweep("multi30k/sweep_dropout.yaml"),
    "multi30k sweep of pervasive attention": lambda: results.sweep("multi30k/sweep_pervasive.yaml"),
    "positions and attention": lambda: in_small(
        "papers/convs2s/multi30k.yaml", published.POSITIONS_AND_ATTENTION
    ),
    "aggregation": lambda: in_small("papers/pervasive/multi30k.yaml", published.AGGREGATION),
    "adl pairs": lambda: in_small("adl/tables.yaml", published.ADL_PAIRS),
    "adl steps": lambda: in_small("adl/tables.yaml", published.ADL_STEPS),
    "adl convolutions": lambda: in_small("adl/tables.yaml", published.ADL_CONVOLUTIONS),
    "pronunciation scores": lambda: results.scores(pronunciation()),
    "pronunciation languages": lambda: of_data_sets(pronunciation()),
    "pronunciation multilingual": lambda: results.scores(
        results.finished("pronunciation/multilingual.yaml")
    ),
    "pronunciation continued": lambda: results.scores(
        results.finished("pronunciation/continued.yaml")
    ),
    "hybrids scores": lambda: results.scores(results.finished(hybrids.FILE)),
    "hybrids translation": lambda: results.scores(results.finished(hybrids.TRANSLATION)),
    "hybrids other direction": lambda: results.scores(
        results.finished(hybrids.TRANSLATION, "en_de")
    ),
    "hybrids languages": hybrids.by_language,
    "hybrids repetitions": hybrids.repetitions,
    "other fconv": other_projects.fconv,
    "other attn2d": other_projects.attn2d,
    "other sockeye options": other_projects.sockeye_options,
    "other sockeye layers": other_projects.sockeye_layers,
}


def updated(text: str) -> str:
    """A page with its tables made again.

    Raises:
        KeyError: a comment names a table that GENERATORS does not have.
    """

    def block(match: re.Match[str]) -> str:
        body = GENERATORS[match["name"]]()
        # Markdown needs an empty line between a comment and a table.
        return (
            f"{match['start']}\n{body}\n\n{match['end']}"
            if body
            else (f"{match['start']}{match['end']}")
        )

    return BLOCK.sub(block, text)


def main() -> int:
    """Write the tables, or with ``--check`` name the pages that are not current."""
    texts = ((page, page.read_text(encoding="utf-8")) for page in PAGES)
    return write_or_check(
        __doc__.splitlines()[0], ((page, pages.updated(updated(text))) for page, text in texts)
    )


if __name__ == "__main__":
    sys.exit(main())
