"""The standard streams: closed or full ones, and stdout kept for the answer alone."""

from __future__ import annotations

import ctypes
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lipyomo.base.errors import LipyomoError
from lipyomo.cli.codes import Stream


class StreamClosed(LipyomoError):
    """The reader of stdout has gone, as in ``lipyomo ... | head``; there is nobody to tell."""


class StreamFailed(LipyomoError):
    """The answer cannot be written, for example because the disk is full."""


def open_streams() -> None:
    """Put the null device where stdout or stderr was closed by the caller."""
    for number, name in ((Stream.OUT, "stdout"), (Stream.ERR, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # names may hold letters that it does not know
            stream.reconfigure(errors="backslashreplace")


def warn(message: str) -> None:
    """Say on stderr what went wrong beside the answer."""
    print(f"lipyomo: warning: {message}", file=sys.stderr, flush=True)


def wrote(write: Callable[[], object]) -> bool:
    """Write a file beside the answer; if that fails, say so, and lose nothing else."""
    try:
        write()
    except LipyomoError as error:
        warn(str(error))
        return False
    return True


@contextmanager
def answer_is_written() -> Iterator[None]:
    """Turn failures to write into `StreamClosed` or `StreamFailed`; no other file is meant."""
    try:
        yield
    except BrokenPipeError:
        _drop_stdout()
        raise StreamClosed("nobody reads stdout") from None
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        _drop_stdout()
        raise StreamFailed("the answer cannot be written: no space left on the device") from None


def _drop_stdout() -> None:
    """Send the rest to nowhere, so that Python's exit does not complain about it as well."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, Stream.OUT)
    os.close(null)


@contextmanager
def answer_only() -> Iterator[None]:
    """Send everything that is written to stdout to stderr while the body runs.

    Solvers are C libraries that write to the file descriptor (Gurobi reports Ctrl-C so, whatever
    its log settings are), so `sys.stdout` alone would not do.
    """
    sys.stdout.flush()
    kept = os.dup(Stream.OUT)
    try:
        os.dup2(Stream.ERR, Stream.OUT)
        yield
    finally:
        sys.stdout.flush()
        _flush_c_streams()
        os.dup2(kept, Stream.OUT)
        os.close(kept)


def _flush_c_streams() -> None:
    """Empty the buffers of C's stdio, which would else reach stdout later."""
    if sys.platform != "win32":
        ctypes.CDLL(None).fflush(None)
