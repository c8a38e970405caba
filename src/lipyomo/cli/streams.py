"""Keep stdout for the answer: what solver libraries print there goes to stderr."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STDOUT, STDERR = 1, 2


@contextmanager
def answer_only() -> Iterator[None]:
    """Send everything that is written to stdout to stderr while the body runs.

    Solvers are C libraries that write to the file descriptor (Gurobi reports Ctrl-C so, whatever
    its log settings are), so `sys.stdout` alone would not do.
    """
    sys.stdout.flush()
    try:
        kept = os.dup(STDOUT)
    except OSError:  # there is no stdout at all, as under pythonw or a daemon
        yield
        return
    try:
        os.dup2(STDERR, STDOUT)
        yield
    finally:
        sys.stdout.flush()
        _flush_c_streams()
        os.dup2(kept, STDOUT)
        os.close(kept)


def _flush_c_streams() -> None:
    """Empty the buffers of C's stdio, which would else reach stdout later."""
    if sys.platform != "win32":
        ctypes.CDLL(None).fflush(None)
