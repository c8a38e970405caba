"""The memory of this machine, and limits on what this process may take of it."""

from __future__ import annotations

import math
import os
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

from lipyomo.base.errors import ProblemError

MEGABYTE = 2**20

ARRAYS = 16
"""Arrays of one size that a step holds at a time, about."""

CACHED = MEGABYTE
"""Bytes of arrays that many operations in a row go through: about what a core's cache holds."""

BATCH = 32 * MEGABYTE
"""Bytes of arrays that are made at a time: larger ones come page by page from the GNU C library."""

KEPT = 256 * MEGABYTE
"""Bytes of what is kept as a whole: a search's points, a text."""

LARGE = 2048 * MEGABYTE
"""Bytes from which a step is predicted to be too large for common machines, and is not begun."""

DEEPEST = sys.getrecursionlimit() // 20
"""Graphs in graphs, or parentheses in parentheses, that no file needs: at some twenty calls each,
Python's own stack would end."""


@cache
def machine_memory() -> int:
    """Bytes of memory of this machine, or of the control group that this process runs in.

    The system is asked once: maps of coefficients ask for each product.
    """
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not on this system
        return 4 * 2**30
    for place in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(place).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return total


def used_memory() -> int:
    """Most bytes that this process has had so far; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def memory_limit() -> float:
    """Most bytes that this process may take, by `limit_memory` or otherwise; infinite if any."""
    try:
        import resource
    except ImportError:
        return math.inf
    most, _ = resource.getrlimit(_kind(resource))
    return math.inf if most == resource.RLIM_INFINITY else float(most)


def _kind(resource: ModuleType) -> int:
    """Which of the system's limits is meant.

    Data rather than address space: libraries reserve far more addresses than they use.
    """
    return int(resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS)


def limit_memory(size: int) -> None:
    """Let this process take at most `size` bytes, where the system can see to it.

    What exceeds the limit is refused by the system, and Python raises `MemoryError`.

    Raises
    ------
    ProblemError
        If the process has taken more already.
    """
    used = used_memory()
    if used > size:
        raise ProblemError(
            f"the memory limit of {size / MEGABYTE:,.0f} MB is less than what the program itself "
            f"takes ({used / MEGABYTE:,.0f} MB).  Remedy: raise --memory-limit"
        )
    try:
        import resource
    except ImportError:
        return
    kind = _kind(resource)
    _, most = resource.getrlimit(kind)
    soft = size if most == resource.RLIM_INFINITY else min(size, most)
    try:
        resource.setrlimit(kind, (soft, most))
    except (ValueError, OSError):  # the system has no such limit
        return
