"""What a process does with memory that it has freed."""

import ctypes
import functools
import os

# Parameters of glibc's mallopt, and the largest values that it accepts on 64-bit systems.
M_TRIM_THRESHOLD, KEEP = -1, 2**31 - 1
M_MMAP_THRESHOLD, LARGEST_KEPT = -3, 2**25
# With one of these, users have chosen themselves.
VARIABLES = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


@functools.cache
def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, for what it allocates next.

    Every step of a search on a CPU allocates and frees some megabytes. glibc returns them to the
    operating system, and each page that comes back must be cleared, which took 15% of the time of a
    search in single precision. Other C libraries stay as they are, and so does glibc if a variable
    of its own says what it should do.
    """
    if any(map(os.environ.get, VARIABLES)):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(M_TRIM_THRESHOLD, KEEP)
