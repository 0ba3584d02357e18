"""Files of the documentation that programs write: written again, or checked with ``--check``."""

import argparse
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_or_check(description: str, files: Iterable[tuple[Path, str]]) -> int:
    """Write the files that are not current, or with ``--check`` name them; returns the exit code.

    Args:
        description: what the program does, for its help.
        files: each file, and what it should be.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if a file is old")
    check = parser.parse_args().check
    old = 0
    for path, new in files:
        if path.exists() and path.read_text(encoding="utf-8") == new:
            continue
        old += 1
        print(f"{path.relative_to(ROOT)} {'is not current' if check else 'is written'}")
        if not check:
            path.write_text(new, encoding="utf-8")
    return 1 if check and old else 0
