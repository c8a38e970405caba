"""The one room that opens files for writing: nothing of the user's is harmed.

A regular file is replaced in one step, once the new content is whole on the disk; it keeps its
permissions.  Symbolic links are written through.  Devices and pipes are written to.  A file that
holds something else, or that the same command reads, is refused.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.memory import BATCH

AnyPath = str | os.PathLike[str]


class OutputError(LipyomoError):
    """A file cannot be written, or must not be: it holds something else, or is read as well."""


@dataclass(frozen=True)
class Kind:
    """What a file holds.

    Attributes
    ----------
    name : str
        With its article.
    owns : callable
        Whether a file that begins with these bytes is of this kind.
    """

    name: str
    owns: Callable[[bytes], bool]


def starting(name: str, *starts: bytes) -> Kind:
    """The kind of files that start in one of several ways."""
    return Kind(name, lambda first: first.startswith(starts))


def _is_proof(first: bytes) -> bool:
    with suppress(zlib.error):
        return zlib.decompressobj(31).decompress(first, 64).startswith(b'{"format":"lipyomo-proof')
    return False


CHECKPOINT_START = b"lipyomo checkpoint "

PROOF = Kind("a proof", _is_proof)
CHECKPOINT = starting("a checkpoint", CHECKPOINT_START)
DERIVATIVES = starting("a table of derivatives", b"row,input,low_proved,")
HISTORY = starting("the history of an interval", b"seconds,lower,upper\n", b'[\n {\n  "seconds": ')
RESULT = starting("a result", b'{\n "lower": ')
_ROWS = b"index,", b'{"run": {', b'# {"'  # the last one until 0.3.0
ROWS = Kind(  # which can be torn anywhere: who opens them looks at the whole head
    "rows of such a run",
    lambda first: any(first.startswith(start) or start.startswith(first) for start in _ROWS),
)
MODEL = starting("an ONNX model", b"\x08")

_PICTURES = {
    ".png": b"\x89PNG\r\n",
    ".pdf": b"%PDF-",
    ".svg": b'<?xml version="1.0" encoding="utf-8" standalone="no"?>\n<!DOCTYPE svg',
    ".jpg": b"\xff\xd8\xff",
    ".jpeg": b"\xff\xd8\xff",
    ".eps": b"%!PS-Adobe",
    ".ps": b"%!PS-Adobe",
    ".webp": b"RIFF",
}
"""How pictures begin; those of other formats are not replaced."""


def picture(path: AnyPath) -> Kind:
    """The kind of a picture, by the ending of its name."""
    ending = Path(path).suffix.lower()
    start = _PICTURES.get(ending)
    return starting(f"a picture ({ending})", *([] if start is None else [start]))


def shown(path: AnyPath) -> str:
    """A path in quotes, without the middle of one that is too long to read."""
    text = str(path)
    return f"'{text}'" if len(text) <= 200 else f"'{text[:80]}...{text[-40:]}'"


def why(error: OSError | ValueError) -> str:
    """What the system says about a path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def same_file(one: AnyPath, other: AnyPath) -> bool:
    """Whether two names are those of one file, there or not; devices and pipes are none."""
    try:
        return os.path.samefile(one, other) and stat.S_ISREG(os.stat(one).st_mode)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            return os.path.realpath(one) == os.path.realpath(other)
    return False


def stat_or_none(path: AnyPath) -> os.stat_result | None:
    """What is there behind a name, through symbolic links; None where nothing is.

    Raises
    ------
    OutputError
        If no file can have that name.
    """
    try:
        return os.stat(os.fspath(path))
    except FileNotFoundError:
        return None
    except TypeError:
        raise OutputError(f"{path!r} is not the path of a file") from None
    except (OSError, ValueError) as error:
        raise OutputError(f"{shown(path)} cannot be the name of a file: {why(error)}") from None


def check_output(path: AnyPath, kind: Kind, reads: Iterable[AnyPath] = ()) -> None:
    """Refuse a file that cannot or must not be written, before anything long is computed.

    Parameters
    ----------
    path : path
    kind : Kind
        What will be written.
    reads : iterable of path, optional
        What the same call reads.

    Raises
    ------
    OutputError
        If it is a folder or in none, must not be written by this user, holds something of another
        kind, or is read.
    """
    there = stat_or_none(path)
    if not str(path) or (there is not None and stat.S_ISDIR(there.st_mode)):
        raise OutputError(f"{shown(path)} is not the name of a file")
    if any(same_file(path, source) for source in reads):
        raise OutputError(
            f"{shown(path)} is read as well, and would be lost.  Remedy: give {kind.name} another "
            "name"
        )
    real = Path(os.path.realpath(path))
    if there is None or _is_replaced(there):
        if not real.parent.is_dir():
            raise OutputError(f"there is no folder {shown(Path(path).parent)}")
        if not os.access(real.parent, os.W_OK):
            raise OutputError(f"nothing can be written to the folder {shown(real.parent)}")
    if there is None:
        return
    if not os.access(path, os.W_OK):
        raise OutputError(f"{shown(path)} must not be written: it is read-only")
    if _is_replaced(there) and not is_of(path, kind):
        raise OutputError(
            f"{shown(path)} is there and is not {kind.name}, so it is not replaced.  Remedy: give "
            "another name, or delete it"
        )


def is_of(path: AnyPath, kind: Kind) -> bool:
    """Whether a regular file is empty or of a kind, by its first bytes.

    Raises
    ------
    OutputError
        If it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            first = stream.read(io.DEFAULT_BUFFER_SIZE)
    except OSError as error:
        raise OutputError(f"cannot look at what {shown(path)} holds: {why(error)}") from None
    return not first or kind.owns(first)


@contextmanager
def written(path: AnyPath, kind: Kind) -> Iterator[BinaryIO]:
    """Open a file to be written as a whole; what is there stays until the body has ended.

    If the body fails, or the disk is full, nothing has changed.

    Parameters
    ----------
    path : path
    kind : Kind

    Raises
    ------
    OutputError
        As for `check_output`, or if the file cannot be written.
    """
    check_output(path, kind)
    there = stat_or_none(path)
    try:
        if there is None or _is_replaced(there):
            with _replaced(Path(os.path.realpath(path)), there) as stream:
                yield stream
        else:
            # first elsewhere: pipes take nothing back, and those who write go back in their files
            with tempfile.SpooledTemporaryFile(BATCH) as stream:
                yield cast(BinaryIO, stream)
                stream.seek(0)
                with os.fdopen(_number(path, there), "wb") as device:
                    shutil.copyfileobj(stream, device)
    except OSError as error:
        raise OutputError(
            f"{kind.name} cannot be written to {shown(path)}: {why(error)}.  Remedy: a folder that "
            "exists, is writable and has room"
        ) from None


@contextmanager
def _replaced(path: Path, there: os.stat_result | None) -> Iterator[BinaryIO]:
    """A new file beside a regular one, which takes its place at the end."""
    # the draft's name stays within what a file system allows, however long the other one is
    draft = path.with_name(f".{path.name[:32]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with draft.open("x+b") as stream:
            if there is not None and sys.platform != "win32":
                with suppress(OSError):  # who does not own the file becomes the owner of the new
                    os.fchown(stream.fileno(), there.st_uid, there.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(there.st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _number(path: AnyPath, there: os.stat_result | None) -> int:
    """Open a device or pipe as it is, a regular file at its end; standard streams go on."""
    stream = None if there is None else _stream_of(there)
    if stream is not None:
        return os.dup(stream)
    regular = there is None or _is_replaced(there)
    more = os.O_APPEND | os.O_CREAT if regular else 0
    return os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0) | more, 0o666)


def _is_replaced(there: os.stat_result) -> bool:
    """Whether this is a file that another one can take the place of."""
    return stat.S_ISREG(there.st_mode) and _stream_of(there) is None


def _stream_of(there: os.stat_result) -> int | None:
    """The number of the standard stream that leads to this file, if one does."""
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), there):
                return number
    return None


class GrowingFile:
    """A file to whose end lines are added, for good; what cannot be written waits.

    Parameters
    ----------
    path : path
    kind : Kind

    Attributes
    ----------
    before : bytes
        What was there (nothing in devices and pipes).

    Raises
    ------
    OutputError
        As for `check_output`.
    """

    def __init__(self, path: AnyPath, kind: Kind) -> None:
        check_output(path, kind)
        self._path, self._kind = path, kind
        there = stat_or_none(path)
        self._regular, self._created = there is None or _is_replaced(there), there is None
        try:
            self.before = Path(path).read_bytes() if self._regular and there is not None else b""
            self._file = _number(path, there)
        except OSError as error:
            raise self._trouble(error) from None
        self._size = len(self.before)
        self._waiting = b""

    def cut(self, size: int) -> None:
        """Keep the first bytes only of what was there.

        Raises
        ------
        OutputError
        """
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            raise self._trouble(error) from None
        self._size = size

    def add(self, data: bytes) -> None:
        """Write what waits, and `data`, to the disk.

        Raises
        ------
        OutputError
            If that fails: a regular file is as before, and what is not written waits for the next
            call.
        """
        waiting = self._waiting + data
        done = 0
        try:
            while done < len(waiting):
                done += os.write(self._file, waiting[done:])
            if self._regular:
                os.fsync(self._file)
        except OSError as error:
            if self._regular:
                done = 0
                with suppress(OSError):
                    os.ftruncate(self._file, self._size)
            raise self._trouble(error) from None
        finally:
            self._size += done
            self._waiting = waiting[done:]

    def close(self) -> None:
        """Try once more to write what waits, and close the file.

        Raises
        ------
        OutputError
            If something is left unwritten.
        """
        try:
            self.add(b"")
        finally:
            os.close(self._file)
            if self._created and self._size == 0:
                Path(self._path).unlink(missing_ok=True)

    def _trouble(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self._kind.name} cannot be written to {shown(self._path)}: {why(error)}"
        )
