"""What a process does with memory that it has freed."""

import ctypes
import functools

# Parameters of glibc's mallopt, and their values: the largest that it takes.
M_TRIM_THRESHOLD, KEEP = -1, 2**31 - 1
M_MMAP_THRESHOLD, LARGEST_KEPT = -3, 2**25


@functools.cache
def keep_freed_memory() -> None:
    """Let this process keep memory that it frees, for what it allocates next.

    Every step of a search allocates and frees some megabytes. glibc returns them to the operating
    system, and each page that comes back must be cleared, which took up to a fifth of the time.
    Other C libraries stay as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    mallopt(M_TRIM_THRESHOLD, KEEP)
