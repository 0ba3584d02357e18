"""fairseq-validate: the criterion that the command line names, and no need to name the task."""

import functools
from typing import Any

from fairseq import checkpoint_utils, options
from fairseq.registry import REGISTRIES
from omegaconf import DictConfig, OmegaConf, open_dict

# It has the options of fairseq's translation, too. The task itself is that of the checkpoint.
TASK = "convs2s_translation"


def parse_without_task() -> None:
    """Parse the command line of fairseq-validate without ``--task``, where fairseq fails."""
    original = options.parse_args_and_arch

    @functools.wraps(original)
    def parse_args_and_arch(parser: Any, *arguments: Any, **kwargs: Any) -> Any:
        if any(x.dest == "task" and x.default is None for x in parser._actions):
            parser.set_defaults(task=TASK)
        return original(parser, *arguments, **kwargs)

    options.parse_args_and_arch = parse_args_and_arch


def use_given_criterion() -> None:
    """Replace the criterion of a checkpoint by that of ``--criterion``, which fairseq ignores.

    Options that both have keep their values, if the command line does not give others.
    """
    original = checkpoint_utils.overwrite_args_by_name

    @functools.wraps(original)
    def overwrite_args_by_name(cfg: DictConfig, overrides: dict[str, Any]) -> None:
        name, saved = overrides.get("criterion"), cfg.get("criterion")
        known = REGISTRIES["criterion"]["dataclass_registry"]
        if isinstance(saved, DictConfig) and name in known and saved.get("_name") != name:
            chosen = OmegaConf.structured(known[name])
            for key in chosen:
                if key in saved:
                    chosen[key] = saved[key]
            with open_dict(chosen), open_dict(cfg):
                chosen["_name"] = name
                cfg["criterion"] = chosen
        original(cfg, overrides)

    checkpoint_utils.overwrite_args_by_name = overwrite_args_by_name
