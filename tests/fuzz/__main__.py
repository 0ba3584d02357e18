"""Fuzz one target with atheris: ``python -m tests.fuzz TARGET [CORPUS] [-max_total_time=SECONDS]``.

Inputs that reach new code are kept in the corpus, a folder (default: fuzz_out/TARGET).
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["convs2s", "convs2s_plugin", "yaml"]):
    from tests.fuzz.seeds import LONGEST, seeds
    from tests.fuzz.targets import TARGETS


def main(arguments: list[str]) -> None:
    """Fuzz until an error that is not documented, a hang, or the end of the time."""
    name, *rest = arguments
    folders = [argument for argument in rest if not argument.startswith("-")]
    folder = Path(folders[0] if folders else f"fuzz_out/{name}")
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds()[name]):
        (folder / f"seed{number}").write_bytes(seed)
    # What torch takes, and 2 GB.
    limits = ["-timeout=60", "-rss_limit_mb=2500", "-malloc_limit_mb=2000"]
    limits += [f"-max_len={LONGEST}", "-print_final_stats=1"]
    given = [argument for argument in rest if argument.startswith("-")]
    atheris.Setup([sys.argv[0], str(folder), *limits, *given], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
