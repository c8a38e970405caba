"""The memory of this machine, and memory limits of this process."""

from __future__ import annotations

import math
import os
import sys
from functools import cache
from pathlib import Path
from typing import Any

from lipyomo.base.errors import ProblemError

resource: Any  # the module; None where the system has none
try:
    import resource
except ImportError:
    resource = None

MEGABYTE = 2**20

ARRAYS = 16
"""Approximate number of arrays of one size that a step holds at a time."""

CACHED = MEGABYTE
"""Bytes of arrays in a sequence of many operations: about the size of a core's cache."""

BATCH = 32 * MEGABYTE
"""Bytes of arrays created at a time: the GNU C library maps larger ones page by page."""

KEPT = 256 * MEGABYTE
"""Limit of bytes that are stored permanently, such as a search's points or a text."""

LARGE = 2048 * MEGABYTE
"""Bytes from which a step is considered too large for common machines, and is not started."""

DEEPEST = sys.getrecursionlimit() // 20
"""Limit of nested graphs or parentheses, which no file needs: at about twenty calls for each level,
Python's recursion limit would be reached."""


@cache
def machine_memory() -> int:
    """Return the bytes of memory of this machine, or of the control group of this process.

    The value is cached, since it is needed for each product of coefficient maps.
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
    """Return the peak memory of this process in bytes; 0 if the system does not tell."""
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most if sys.platform == "darwin" else 1024 * most)


def memory_limit() -> float:
    """Return the memory limit of this process in bytes, set by `limit_memory` or otherwise."""
    if resource is None:
        return math.inf
    most, _ = resource.getrlimit(_limited())
    return math.inf if most == resource.RLIM_INFINITY else float(most)


def _limited() -> int:
    """Return which of the system's limits is used.

    On Linux the data segment, not the address space, of which libraries reserve far more than they
    use.
    """
    return int(resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS)


def limit_memory(size: int) -> None:
    """Limit the memory of this process to `size` bytes, where the system supports it.

    Beyond the limit, Python raises `MemoryError`.

    Raises
    ------
    ProblemError
        If the process has used more already.
    """
    used = used_memory()
    if used > size:
        raise ProblemError(
            f"the memory limit of {size / MEGABYTE:,.0f} MB is less than what the program itself "
            f"takes ({used / MEGABYTE:,.0f} MB).  Remedy: raise --memory-limit"
        )
    if resource is None:
        return
    kind = _limited()
    _, most = resource.getrlimit(kind)
    soft = size if most == resource.RLIM_INFINITY else min(size, most)
    try:
        resource.setrlimit(kind, (soft, most))
    except (ValueError, OSError):  # the system has no such limit
        return
