"""Exit codes, and numbers of the standard streams."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    """The result is as requested."""
    FAILED = 1
    """The input was wrong, there is no result, or a file could not be written."""
    OPEN = 2
    """The result is valid, but less than requested."""


def worst(codes: Collection[int]) -> Exit:
    """Return the exit code of a command from those of its parts."""
    return next(code for code in (Exit.FAILED, Exit.OPEN, Exit.DONE) if code in codes)


class Stream(IntEnum):
    """File descriptors."""

    OUT = 1
    ERR = 2
