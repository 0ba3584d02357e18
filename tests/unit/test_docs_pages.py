"""What the pages name exists: options, architectures, files, definitions."""

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from fairseq import options, registry
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import benchmarks.__main__ as benchmarks
from convs2s.cli import experiment
from convs2s.cli.arguments import Input
from convs2s.cli.commands import FORWARDING
from convs2s.common.errors import UserError
from convs2s.experiments.file import Averaging, DataSettings, Experiment, System, Tuning
from convs2s.models.adl import Settings, resolve
from convs2s_plugin.compat import enable_all
from docs.other_projects import SOCKEYE
from tests.support import batch_statistics
from tests.support.commands import PLUGIN
from tests.support.doc_blocks import (
    DOCS,
    ROOT,
    Block,
    blocks,
    commands,
    inline_code,
    pages,
    prose,
)

pytestmark = pytest.mark.docs

MARKDOWN = [
    *pages(),
    *(
        ROOT / name
        for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "SECURITY.md")
    ),
    ROOT / "models" / "README.md",
    ROOT / "results" / "README.md",
    *sorted((ROOT / "examples").rglob("*.md")),
]
BLOCKS = [block for page in pages() for block in blocks(page)]
# Programs of the system, whose options are not checked.
SYSTEM = {
    "awk",
    "cat",
    "cd",
    "cp",
    "curl",
    "cut",
    "docker",
    "echo",
    "grep",
    "mkdir",
    "pip",
    "pip-audit",
    "printf",
    "rm",
    "sbatch",
    "sed",
    "sort",
    "tail",
    "tar",
    "wait",
    "ct2-fairseq-converter",
    "sacrebleu",
    "subword-nmt",
}
# Those that docs/add_a_layer.md and docs/add_a_family.md register.
OWN_ARCHITECTURES = {"convs2s_small", "adl_birnn_cnn", "bag_of_words_small"}
PARSERS = {
    "fairseq-train": options.get_training_parser,
    "fairseq-generate": options.get_generation_parser,
    "fairseq-interactive": lambda: options.get_generation_parser(interactive=True),
    "fairseq-preprocess": options.get_preprocessing_parser,
    "fairseq-validate": options.get_validation_parser,
}


def place(block: Block) -> str:
    return block.place


def shell_commands() -> Iterator[tuple[Block, list[str]]]:
    for block in BLOCKS:
        if block.language == "sh":
            for words in commands(block.code):
                yield block, words


@pytest.mark.parametrize(
    "block, words",
    [pytest.param(*pair, id=f"{pair[0].place}-{pair[1][0]}") for pair in shell_commands()],
)
def test_every_command_has_the_options_that_it_is_given(block, words, tmp_path, monkeypatch):
    monkeypatch.setattr(Input, "check", lambda self, path, option: None)
    program, *arguments = words
    arguments = [word.replace("$(convs2s path)", str(PLUGIN)) for word in arguments]
    arguments = [re.sub(r"^\$\w+$", "1", word) for word in arguments]
    if program == "torchrun":
        start = arguments.index("$(which fairseq-train)")
        program, arguments = "fairseq-train", arguments[start + 1 :]
    if program == "fairseq-preprocess":
        PARSERS[program]().parse_args(arguments)
    elif program in PARSERS:
        given = without_own_packages(arguments)
        options.parse_args_and_arch(
            PARSERS[program](), input_args=[w for w in given if w != "--help"]
        )
    elif program == "fairseq-hydra-train":
        name = arguments[arguments.index("--config-name") + 1]
        assert (ROOT / arguments[arguments.index("--config-dir") + 1] / f"{name}.yaml").is_file()
    elif program == "convs2s":
        parse_convs2s(arguments)
    elif program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert arguments[0] in targets
    elif program == "pip":
        extras = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
        for extra in re.findall(r"\[(\w+)\]", " ".join(arguments)):
            assert extra in extras
    elif program == "python" and arguments[:2] == ["-m", "benchmarks"]:
        monkeypatch.setattr("sys.argv", ["benchmarks", *arguments[2:]])
        benchmarks.parse_arguments()
    elif program == "python" and arguments[:2] == ["-m", "tests.support.batch_statistics"]:
        batch_statistics.parse_arguments(arguments[2:])
    elif program == "python" and arguments[:2] == ["-m", "pytest"]:
        assert all((ROOT / word).exists() for word in arguments[2:] if "/" in word)
    elif program == "docker" and arguments[0] == "run":
        given = arguments[arguments.index("convs2s") + 1 :]
        if "--entrypoint" in arguments:
            assert (ROOT / given[0].removeprefix("/opt/")).is_file()
        else:
            parse_convs2s(given)
    elif program == "python":
        assert (ROOT / arguments[0]).is_file()
    else:
        assert program in SYSTEM, f"{block.place}: what is {program}?"


def without_own_packages(arguments: list[str]) -> list[str]:
    """Arguments with the plugin and what it has in place of packages that a page itself makes."""
    given = list(arguments)
    for place, word in enumerate(arguments[:-1]):
        if word == "--user-dir":
            given[place + 1] = str(PLUGIN)
        if word == "--arch" and arguments[place + 1] not in ARCH_MODEL_REGISTRY:
            assert arguments[place + 1] in OWN_ARCHITECTURES
            given[place + 1] = "convs2s"
    return [re.sub(r"gain\(start=2\)|gain|smooth\(0.8\)", "id", word) for word in given]


def parse_convs2s(arguments: list[str]) -> None:
    from importlib import import_module

    module = import_module(f"convs2s.cli.{arguments[0].replace('-', '_')}")
    parser = argparse.ArgumentParser(allow_abbrev=False)
    module.add_arguments(parser)
    if arguments[0] not in FORWARDING:
        parser.parse_args(arguments[1:])
        return
    own, forwarded = parser.parse_known_args(arguments[1:])
    arch = getattr(own, "arch", None) or ("convs2s" if arguments[0] == "train" else None)
    if arch:
        forwarded = ["data", "--arch", arch, *forwarded]
    options.parse_args_and_arch(options.get_training_parser(), input_args=forwarded)


def known_options() -> set[str]:
    """Every option of fairseq, of the package and of its programs."""
    enable_all()
    parsers = [make() for make in PARSERS.values()]
    dataclasses = [
        *MODEL_DATACLASS_REGISTRY.values(),
        *TASK_DATACLASS_REGISTRY.values(),
        *CRITERION_DATACLASS_REGISTRY.values(),
        *(c for r in registry.REGISTRIES.values() for c in r["dataclass_registry"].values() if c),
    ]
    known = {f"--{f.name.replace('_', '-')}" for c in dataclasses for f in fields(c)}
    for module in (ROOT / "convs2s" / "cli").glob("*.py"):
        text = module.read_text(encoding="utf-8")
        known |= set(re.findall(r'"(--[\w-]+)"', text))
    programs = ROOT / "benchmarks", ROOT / "examples", ROOT / "models"
    for path in (path for folder in programs for path in folder.rglob("*.py")):
        known |= set(re.findall(r'"(--[\w-]+)"', path.read_text(encoding="utf-8")))
    return known.union(*(parser._option_string_actions for parser in parsers))


def test_every_option_in_the_text_exists():
    known = known_options() | {"--no-build-isolation", "--help", "--version", "--user-dir"}
    known.add("--normalization-constant")  # of fconv_gec, which is not in fairseq
    known |= {"--nproc-per-node", "--node-rank"}  # of torchrun
    known |= {"--index-url", "--list"}  # of pip and sacrebleu
    known.add("--full-context-alignment")  # of fairseq's transformer_align
    # Options of other projects: Sockeye, and the later code of attn2d.
    known |= {"--convnet", *re.findall(r"--[\w-]+", " ".join(theirs for theirs, *_ in SOCKEYE))}
    for page in MARKDOWN:
        if page.name == "commands.md":  # made from the parsers
            continue
        for code in inline_code(page):
            for option in re.findall(r"(?<![\w-])--[a-z][\w-]*", code):
                assert option in known, f"{page}: there is no option {option}"


def test_every_architecture_in_the_text_exists():
    words = {"convs2s_plugin", "convs2s_cli", "convs2s_translation", "convs2s_cross_entropy"}
    words |= {"convs2s_sequence_risk", "convs2s_risk"}
    words |= {path.stem for path in (ROOT / "examples" / "hydra").glob("*.yaml")}
    words |= OWN_ARCHITECTURES | {"fconv_gec", "fconv_dualenc_gec_gatedaux"}
    for page in pages():
        for code in inline_code(page):
            for name in re.findall(r"\b(?:convs2s|pervasive|adl|fconv)_(?!out\b)\w+\b", code):
                assert name in ARCH_MODEL_REGISTRY or name in words, f"{page}: {name}"


def test_every_file_in_the_text_exists():
    pattern = r"(?:examples|convs2s_plugin|docs|tests|benchmarks)/[\w./-]*\w"
    for page in MARKDOWN:
        for code in inline_code(page):
            if re.fullmatch(pattern, code) and "NAME" not in code:
                assert (ROOT / code).exists(), f"{page}: there is no {code}"


def test_every_module_is_in_the_reference():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    listed = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    assert len(set(listed)) == len(listed)
    packages = {"convs2s", "convs2s.models", "convs2s.models.adl", "convs2s_plugin"}
    for path in [*(ROOT / "convs2s").rglob("*.py"), *PLUGIN.rglob("*.py")]:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        covered = [one for one in listed if f"{name}.".startswith(f"{one}.")]
        assert len(covered) == 1 or name in packages or name == "convs2s.__main__", (name, covered)
    for name in listed:
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"there is no {name}"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "adl"], ids=place)
def test_every_definition_is_one(block):
    decoder = "pos -> rnn -> res(mlp_att)"
    try:
        assert resolve(block.code, decoder, Settings())
    except UserError:
        assert resolve("pos -> repeat(6, res_nd(rnn)) -> norm", block.code, Settings())


def test_every_key_of_an_experiment_is_on_its_page():
    shown = set(re.findall(r"`(\w+)`", prose(DOCS / "experiments.md")))
    sections = (Experiment, System, DataSettings, Tuning, Averaging)
    known = {key for section in sections for key in section.keys()}
    # They are shown in an example.
    assert known - shown == {"checkpoints", "every"}
    for option in experiment_options():
        assert f"`{option}" in prose(DOCS / "experiments.md"), option


def experiment_options() -> set[str]:
    """The options of ``convs2s experiment``."""
    parser = argparse.ArgumentParser(add_help=False)
    experiment.add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


def test_every_message_of_the_commands_is_in_the_code():
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    section = page.partition("### Of the commands of convs2s\n")[2].partition("\n### ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    messages = [message for cell in cells for message in re.findall(r"`(.+?)`", cell)]
    assert messages
    code = [*(ROOT / "convs2s").rglob("*.py"), *PLUGIN.rglob("*.py"), Path(argparse.__file__)]
    texts = "\n".join(text.replace("`", "") for path in code for text in strings(path))
    for message in messages:
        for part in message.split("..."):
            assert part.strip(" ':()") in texts, f"no message has {part} of {message}"


def strings(path: Path) -> Iterator[str]:
    """The strings of a Python file; those of an f-string are its parts without values."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
