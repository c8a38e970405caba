"""The standard streams: closed or full ones, and keeping stdout for the result alone."""

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
    """The reader of stdout has closed it, as in ``lipyomo ... | head``."""


class StreamFailed(LipyomoError):
    """The result cannot be written, for example because the disk is full."""


def open_streams() -> None:
    """Open the null device in place of a stdout or stderr that the caller has closed."""
    for number, name in ((Stream.OUT, "stdout"), (Stream.ERR, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # names may not be encodable
            stream.reconfigure(errors="backslashreplace")


def warn(message: str) -> None:
    """Print a warning on stderr."""
    print(f"lipyomo: warning: {message}", file=sys.stderr, flush=True)


def wrote(write: Callable[[], object]) -> bool:
    """Write a further file; if that fails, warn and return False."""
    try:
        write()
    except LipyomoError as error:
        warn(str(error))
        return False
    return True


@contextmanager
def answer_is_written() -> Iterator[None]:
    """Turn failures of writing to stdout into `StreamClosed` or `StreamFailed`."""
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
    """Discard further output, so that Python reports no second error at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, Stream.OUT)
    os.close(null)


@contextmanager
def answer_only() -> Iterator[None]:
    """Redirect stdout to stderr while the body runs.

    This is done for the file descriptor, to which solvers, as C libraries, write directly (Gurobi
    reports Ctrl-C this way, whatever its log settings are).
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
    """Flush the buffers of C's stdio, which would otherwise reach stdout later."""
    if sys.platform != "win32":
        ctypes.CDLL(None).fflush(None)
