"""``convs2s doctor``: what is installed, and which commands work with it."""

import argparse
import json
import platform
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any, NamedTuple

from ..common.installation import available_cores, missing_fairseq, versions
from ..common.quiet import quiet
from .arguments import add_flag


class Part(NamedTuple):
    """Packages that some commands need.

    Attributes:
        modules: what is imported.
        extra: the extra of this package that installs them; None for its own dependencies.
        commands: what they are needed for.
    """

    modules: tuple[str, ...]
    extra: str | None
    commands: str


PARTS = (
    Part(("torch", "numpy", "sacrebleu", "subword_nmt"), None, "translate, score and the rest"),
    Part(("fairseq",), "fairseq", "train, experiment, fairseq's own commands"),
    Part(("sacremoses", "sentencepiece"), "text", "prepare and translate raw text"),
    Part(("matplotlib",), "plot", "plot, plot-attention (pictures)"),
    Part(("optuna",), "optuna", "experiment (tuning.sampler tpe)"),
    Part(("rouge_score", "nltk"), "evaluate", "evaluate (ROUGE, METEOR)"),
    Part(("eflomal",), "lexicon", "lexicon (without --alignments)"),
    Part(("onnx", "onnxscript", "onnxruntime"), "export", "export-onnx, compile"),
    Part(("ctranslate2",), "export", "translate --engine ctranslate2"),
    Part(("transformers",), "hf", "exported models in transformers"),
    Part(("starlette", "uvicorn"), "serve", "serve"),
    Part(("submitit",), "slurm", "experiment --launcher slurm"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option of the command."""
    add_flag(parser, "--json", "print JSON")


@quiet()
def run(args: argparse.Namespace) -> int:
    """Print versions, the device and what works; the exit code is 1 if torch does not work."""
    found = {part.commands: _state(part) for part in PARTS}
    about = {**versions(), "machine": _machine()}
    if args.json:
        print(json.dumps({**about, "commands": found}, indent=1))
    else:
        print("\n".join(f"{name} {text}" for name, text in about.items()), end="\n\n")
        print("\n".join(f"{commands}: {state}" for commands, state in found.items()))
    return int(found[PARTS[0].commands] != "works")


def _state(part: Part) -> str:
    """What to say of packages: whether they can be imported, and if not, what to do."""
    failed = []
    for name in part.modules:
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                import_module(name)
        except ModuleNotFoundError as error:
            failed.append(f"{error.name} is not installed")
        except Exception as error:
            # A package that is broken fails in ways of its own.
            failed.append(f"{name} cannot be imported: {' '.join(str(error).split())}")
    if not failed:
        return "works"
    if part.extra == "fairseq":
        return missing_fairseq() or failed[0]
    where = f"convs2s-plugin[{part.extra}]" if part.extra else "convs2s-plugin"
    return f"{', '.join(failed)}: pip install '{where}'"


def _machine() -> str:
    """The system, the processors and the GPU."""
    text = f"{platform.system()} {platform.machine()}, {available_cores()} cores"
    try:
        torch: Any = import_module("torch")
    except Exception:
        return text
    return f"{text}, {torch.cuda.get_device_name() if torch.cuda.is_available() else 'no GPU'}"
