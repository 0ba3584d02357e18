"""Record the report of an experiment with a tracker: trackio, Weights & Biases or MLflow.

What they record stays on this machine, unless their own environment variables say otherwise.
"""

import csv
import html
import os
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from ..common.errors import UserError
from ..common.quiet import quiet
from ..common.text_files import read_text
from .choices import is_number
from .records import read_json
from .report import flatten
from .values import folder_name

# Unless the user has set them: nothing is sent, and little is printed.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_CONSOLE": "off",
    "WANDB_DISABLE_GIT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_MODE": "offline",
    "WANDB_SILENT": "true",
}
# The name of the run with the tables and pictures.
REPORT = "report"


class Record(NamedTuple):
    """A run or trial.

    Attributes:
        name: its name.
        settings: its options, as text, and everything else that is not a score.
        scores: its scores and other numbers.
    """

    name: str
    settings: dict[str, Any]
    scores: dict[str, float]


def records(out: Path) -> list[Record]:
    """The finished runs and trials of an experiment; with several data sets, their means.

    Args:
        out: the folder of the experiment, with its report.
    """
    found = []
    for result in (read_json(out / "results.json") or {}).get("results", []):
        cells = {name: value for name, value in flatten(result) if value is not None}
        number = cells["seed"] if result["trial"] is None else f"trial{result['trial']}"
        scores = {
            name: float(value)
            for name, value in cells.items()
            if is_number(value) and name not in ("seed", "trial")
        }
        settings = {name: value for name, value in cells.items() if name not in scores}
        found.append(Record(f"{folder_name(result['system'])}.{number}", settings, scores))
    return found


def track_with_wandb(library: Any, project: str, runs: Sequence[Record], out: Path) -> None:
    """Record with wandb, or with trackio, which has the same functions."""
    for run in runs:
        library.init(project=project, name=run.name, config=run.settings)
        library.log(run.scores)
        library.finish()
    library.init(project=project, name=REPORT)
    with open(out / "table.csv", encoding="utf-8", newline="") as file:
        columns, *rows = csv.reader(file)
    text = html.escape(read_text(str(out / "table.md")))
    library.log(
        {
            "table": library.Table(columns=columns, data=rows),
            REPORT: library.Html(f"<pre>{text}</pre>"),
            **{path.stem: library.Image(str(path)) for path in pictures(out)},
        }
    )
    library.finish()


def track_with_mlflow(library: Any, project: str, runs: Sequence[Record], out: Path) -> None:
    """Record with MLflow."""
    library.set_experiment(project)
    for run in runs:
        with library.start_run(run_name=run.name):
            library.log_params(run.settings)
            library.log_metrics(run.scores)
    with library.start_run(run_name=REPORT):
        for path in (out / "table.md", out / "table.csv", *pictures(out)):
            library.log_artifact(str(path))


TRACKERS = {
    "trackio": track_with_wandb,
    "wandb": track_with_wandb,
    "mlflow": track_with_mlflow,
}


def check_tracker(name: str) -> None:
    """Check that a tracker is installed.

    Raises:
        UserError: if it is not.
    """
    if find_spec(name) is None:
        raise UserError(f"--tracker {name} needs the package {name}: run `pip install {name}`.")


def pictures(out: Path) -> list[Path]:
    """The pictures in the folder of an experiment, such as those of ``convs2s plot``."""
    return sorted(out.glob("*.png"))


def track(name: str, out: Path) -> str:
    """Record what is in the report of an experiment.

    Args:
        name: a key of ``TRACKERS``.
        out: the folder of the experiment, whose name becomes that of the project.
    Returns:
        A sentence about it.
    Raises:
        UserError: if the tracker fails.
    """
    project, runs = re.sub(r"[^\w.-]", "_", out.name), records(out)
    for variable, value in ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    try:
        with quiet(), redirect_stdout(StringIO()):
            TRACKERS[name](import_module(name), project, runs, out)
    except Exception as error:
        # Trackers have errors of their own: of databases, servers and accounts.
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"{name} did not record the report: {reason}. `--report --tracker {name}` tries again."
        ) from error
    return f"{name} has recorded {len(runs)} runs and the report in the project {project}."
