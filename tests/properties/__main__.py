"""Repeat a case that failed: ``python -m tests.properties CASE [PROPERTY ...]``."""

import json
import sys

from tests.properties.properties import PROPERTIES


def main(arguments: list[str]) -> None:
    """Check the properties of a case in JSON, all or those that are named."""
    case, *names = arguments
    for check in PROPERTIES:
        if not names or check.__name__ in names:
            check(json.loads(case))
            print(f"{check.__name__}: holds")


if __name__ == "__main__":
    main(sys.argv[1:])
