"""The only module that opens files for writing, so that no file of the user is damaged.

A regular file is replaced atomically, once the new content is completely on the disk; it keeps its
permissions.  Symbolic links are followed.  Devices and pipes are written to directly.  Files with
other content, or that the same command reads, are refused.
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
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.memory import BATCH

AnyPath = str | os.PathLike[str]


class OutputError(LipyomoError):
    """A file cannot be written, or must not be: it has other content, or is an input as well."""


class Kind(NamedTuple):
    """A kind of files.

    Attributes
    ----------
    name : str
        Including the article.
    owns : callable
        Tells by a file's first bytes whether it is of this kind.
    """

    name: str
    owns: Callable[[bytes], bool]


def starting(name: str, *starts: bytes) -> Kind:
    """Return the kind of files that start with one of several byte strings."""
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
_ROWS = b"index,", b'{"run": {'
ROWS = Kind(  # which may be truncated anywhere; `RowFile` checks the whole head
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
"""First bytes of pictures by file ending; pictures of other formats are not replaced."""


def picture(path: AnyPath) -> Kind:
    """Return the kind of a picture by its file ending."""
    ending = Path(path).suffix.lower()
    start = _PICTURES.get(ending)
    return starting(f"a picture ({ending})", *([] if start is None else [start]))


def shown(path: AnyPath) -> str:
    """Return a path in quotes, with the middle of long ones left out."""
    text = str(path)
    return f"'{text}'" if len(text) <= 200 else f"'{text[:80]}...{text[-40:]}'"


def why(error: OSError | ValueError) -> str:
    """Return the system's error message for a path."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def same_file(one: AnyPath, other: AnyPath) -> bool:
    """Return whether two paths are of the same regular file, which need not exist."""
    try:
        return os.path.samefile(one, other) and stat.S_ISREG(os.stat(one).st_mode)
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            return os.path.realpath(one) == os.path.realpath(other)
    return False


def stat_or_none(path: AnyPath) -> os.stat_result | None:
    """Return the status of a path, following symbolic links; None if nothing exists there.

    Raises
    ------
    OutputError
        If the path is invalid.
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
    """Refuse a path that cannot or must not be written, before any long computation.

    Parameters
    ----------
    path : path
    kind : Kind
        Of the file to be written.
    reads : iterable of path, optional
        Files that the same call reads.

    Raises
    ------
    OutputError
        If it is a folder, is in a missing folder, is not writable by this user, is of another kind,
        or is read.
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
    """Return whether a regular file is empty or, by its first bytes, of the given kind.

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
    """Open a file for writing; an existing one is replaced when the body has ended.

    If the body fails, or the disk is full, the existing file is unchanged.

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
            # buffered first: pipes cannot be undone after an error, and writers may seek
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
    """Write a temporary file in the same folder, which replaces the file at the end."""
    # the name is shortened, to stay within the limits of file systems
    draft = path.with_name(f".{path.name[:32]}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with draft.open("x+b") as stream:
            if there is not None and sys.platform != "win32":
                with suppress(OSError):  # others than the owner become owners of the new file
                    os.fchown(stream.fileno(), there.st_uid, there.st_gid)
                os.fchmod(stream.fileno(), stat.S_IMODE(there.st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def _number(path: AnyPath, there: os.stat_result | None) -> int:
    """Open a device or pipe, or a file for appending; standard streams are duplicated."""
    stream = None if there is None else _stream_of(there)
    if stream is not None:
        return os.dup(stream)
    regular = there is None or _is_replaced(there)
    more = os.O_APPEND | os.O_CREAT if regular else 0
    return os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0) | more, 0o666)


def _is_replaced(there: os.stat_result) -> bool:
    """Return whether this is a regular file that can be replaced, not a standard stream."""
    return stat.S_ISREG(there.st_mode) and _stream_of(there) is None


def _stream_of(there: os.stat_result) -> int | None:
    """Return the number of the standard stream that is redirected to this file, if any."""
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), there):
                return number
    return None


class GrowingFile:
    """A file to which data are appended durably; data that cannot be written are kept for later.

    Parameters
    ----------
    path : path
    kind : Kind

    Attributes
    ----------
    before : bytes
        The previous content (empty for devices and pipes).

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
        """Truncate the file to its first `size` bytes.

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
        """Write pending data, and `data`, to the disk.

        Raises
        ------
        OutputError
            If that fails: a regular file is as before, and unwritten data stay pending until the
            next call.
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
        """Try once more to write pending data, and close the file.

        Raises
        ------
        OutputError
            If some data are still unwritten.
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
