"""What the system knows by number: exit codes and standard streams."""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of every command."""

    DONE = 0
    """All that was asked for is known."""
    FAILED = 1
    """The input was wrong, nothing came out, or a file could not be written."""
    OPEN = 2
    """What is known holds, but less than was asked for."""


def worst(codes: Collection[int]) -> Exit:
    """The exit code of a command whose parts have these."""
    return next(code for code in (Exit.FAILED, Exit.OPEN, Exit.DONE) if code in codes)


class Stream(IntEnum):
    """File descriptors."""

    OUT = 1
    ERR = 2
