"""COMET, computed by its own program, whose packages conflict with those of this one."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory

from ..common.errors import UserError
from ..common.installation import count_gpus
from ..common.output_files import write_lines
from .metrics import Metric, MetricOptions, References, Scores, Texts

PROGRAM = "comet-score"
# Its encoder comes from a cache; unless the user has set it, nothing is downloaded.
OFFLINE = "HF_HUB_OFFLINE"


def comet(model: str, source: Texts) -> Metric:
    """The metric with a model: the mean score of sentences, in percent.

    Rei et al., "COMET: A Neural Framework for MT Evaluation", EMNLP 2020.

    Args:
        model: the checkpoint of COMET, which has a file ``hparams.yaml`` in the folder above.
        source: N source sentences.
    Raises:
        UserError: if there is no such model, or COMET is not installed.
    """
    path = Path(model).absolute()
    settings = path.parent.parent / "hparams.yaml"
    for file in (path, settings):
        if not file.is_file():
            raise UserError(
                f"--comet {model}: there is no file {file}; give the checkpoint of a model that "
                "was downloaded, such as FOLDER/checkpoints/model.ckpt, with FOLDER/hparams.yaml."
            )
    if path.suffix != ".ckpt":
        raise UserError(
            f"--comet {model} is not a checkpoint of COMET, whose name ends with .ckpt."
        )
    beside = str(Path(sys.executable).parent)
    program = shutil.which(PROGRAM, path=beside) or shutil.which(PROGRAM)
    if program is None:
        raise UserError(
            f"--comet needs the program {PROGRAM}: run `pipx install unbabel-comet`, which keeps "
            "its packages apart from others, or omit --comet."
        )
    return Metric("COMET", partial(_score, program, path, source))


def _score(
    program: str,
    model: Path,
    source: Texts,
    hypotheses: Texts,
    references: References,
    options: MetricOptions,
) -> Scores:
    """Score one system against the only set of references; the options do not matter."""
    if len(source) != len(hypotheses):
        raise UserError(
            f"There are {len(source):,} source sentences, but {len(hypotheses):,} translations; "
            "COMET needs one for each."
        )
    with TemporaryDirectory(prefix="convs2s-comet-") as folder:
        texts = {"-s": source, "-t": hypotheses, "-r": references[0]}
        words: list[str] = []
        for option, lines in texts.items():
            words += [option, str(Path(folder, option[1:]))]
            # The program would treat a carriage return as the end of a line.
            write_lines(words[-1], (line.replace("\r", " ") for line in lines))
        found = Path(folder, "scores.json")
        gpus = min(1, count_gpus())
        done = subprocess.run(
            [program, *words, "--model", model, "--gpus", str(gpus), "--quiet", "--to_json", found],
            env={OFFLINE: "1", **os.environ},
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
        scores = _read(found) if done.returncode == 0 else []
    if len(scores) != len(hypotheses):
        lines = done.stderr.strip().splitlines() or ["it wrote no scores"]
        raise UserError(
            f"{PROGRAM} failed: {lines[-1].strip()} If it lacks the files of its encoder, let it "
            f"download them once with {OFFLINE}=0."
        )
    return Scores({"COMET": 100 * mean(scores)}, f"{PROGRAM}, {model.parent.parent.name}")


def _read(path: Path) -> Sequence[float]:
    """The scores of the sentences in the file that the program wrote; none if it is not whole."""
    try:
        [sentences] = json.loads(path.read_text(encoding="utf-8")).values()
        return [float(sentence["COMET"]) for sentence in sentences]
    except (OSError, AttributeError, KeyError, TypeError, ValueError):
        return []
