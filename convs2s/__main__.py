"""``python -m convs2s COMMAND`` does the same as the console script ``convs2s``."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
