"""Checkpoints: the state of a search in one file of plain arrays, replaced in one step.

The file is a line with a digest of all that follows, and NumPy's ``.npz`` without pickled objects.
It holds what the pipeline encodes, the engine's own state, and the bounds known apart from these.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.digest import rest_digest
from lipyomo.base.errors import LipyomoError
from lipyomo.base.kept import Arrays, Kept
from lipyomo.base.system.outputs import (
    CHECKPOINT,
    CHECKPOINT_START,
    OutputError,
    check_output,
    is_of,
    shown,
    stat_or_none,
    why,
    written,
)
from lipyomo.search.engine.params import Params

VERSION = b"11"

_PART = "/"
_OWNER, _BEST, _UPPER = "known.owner", "known.best", "known.upper"


class CheckpointError(LipyomoError):
    """A checkpoint cannot be read, belongs to another problem, or would be lost."""


class Known(NamedTuple):
    """The best point and bound so far, which are known even before a search has begun.

    Attributes
    ----------
    best : ndarray or None
        The best point.
    upper : float
        A proved upper bound.
    """

    best: FloatArray | None = None
    upper: float = math.inf


class Checkpoint:
    """The file in which a search keeps its state: a context that writes a first version early.

    Parameters
    ----------
    path : Path
    owner : mapping of str to str
        A digest of each part of the problem, by its name.  The file of another problem is refused,
        with a message that names the parts that differ.
    resume : bool, optional
        Resume from the file, if it exists.
    overwrite : bool, optional
        Replace an existing checkpoint.
    known : callable, optional
        Returns what is known so far; also called from another thread.
    params : Params, optional

    Attributes
    ----------
    before : Known or None
        What was known when the file was written, if the search is resumed.
    state : dict of str to ndarray, or None
        The search state in the file; None if that search ended before it had a root.
    trouble : str or None
        Why the last attempt to write the file failed.

    Raises
    ------
    CheckpointError
        If there is a checkpoint that is neither to be resumed nor replaced, or it cannot be read.
    OutputError
        If the file cannot be written, or is no checkpoint.
    """

    def __init__(
        self,
        path: Path,
        owner: Mapping[str, str],
        resume: bool = False,
        overwrite: bool = False,
        known: Callable[[], Known] = Known,
        params: Params | None = None,
    ) -> None:
        check_checkpoint(path, resume, overwrite)
        self._path, self._owner, self._known = path, owner, known
        self.before: Known | None = None
        self.state: Arrays | None = None
        if resume and _is_there(path):
            self.before, self.state = self._load()
        self.trouble: str | None = None
        self._written = self.before is not None
        self._writing = threading.Lock()
        self._over = threading.Event()
        early = (params or Params()).checkpoint_seconds
        self._early = threading.Thread(target=self._save_early, args=(early,), daemon=True)

    def __enter__(self) -> Checkpoint:
        if not self._written:
            self._early.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if kind is None or not issubclass(kind, LipyomoError):
            self.save({})

    def save(self, state: Arrays) -> None:
        """Write the state of a search; the old file stays intact until the new one is complete.

        If that fails, `trouble` says why, and the search can go on.  An empty state, of a search
        without a root, replaces no file.
        """
        with self._writing:
            if self._written and not state:  # a state was written already
                return
            known = self._known()
            data: dict[str, Any] = {
                _OWNER: np.array([*self._owner.values()]),
                _BEST: np.zeros(0) if known.best is None else known.best,
                _UPPER: np.array(known.upper),
            }
            try:
                with written(self._path, CHECKPOINT) as stream:
                    _write_signed(stream, data | state)
            except OutputError as error:
                self.trouble = str(error)
            else:
                self.trouble, self._written = None, True

    def _save_early(self, seconds: float) -> None:
        """Write what is known after some seconds, if the search is not over by then."""
        if not self._over.wait(seconds):
            self.save({})

    def _load(self) -> tuple[Known, Arrays | None]:
        data = _read_signed(self._path)
        owner, best, upper = (data.pop(name) for name in (_OWNER, _BEST, _UPPER))
        parts = zip(self._owner.items(), owner.tolist(), strict=True)
        others = [name for (name, own), its in parts if own != its]
        if others:
            raise CheckpointError(
                f"the checkpoint {shown(self._path)} belongs to another {', another '.join(others)}"
                ".  Remedy: give the same problem, or another file"
            )
        return Known(best if best.size else None, float(upper)), data or None


class SearchStates:
    """The states of several searches, by name, in one checkpoint or in a part of one.

    Parameters
    ----------
    file : Kept or None
        The checkpoint; None if no state is kept.
    """

    def __init__(self, file: Kept | None) -> None:
        self._file = file
        self._states: dict[str, Arrays] = {}
        state = None if file is None else file.state
        for key, array in (state or {}).items():
            name, _, own = key.partition(_PART)
            self._states.setdefault(name, {})[own] = array

    @property
    def trouble(self) -> str:
        """Why the last attempt to write the state failed; empty if it did not."""
        return "" if self._file is None else self._file.trouble or ""

    def part(self, name: str) -> Kept | None:
        """Return the place for the state of the search of this name; it may have parts itself."""
        return None if self._file is None else _Part(self, name)

    def state(self, name: str) -> Arrays | None:
        """Return the last state of the search of this name."""
        return self._states.get(name)

    def save(self, states: Mapping[str, Arrays]) -> None:
        """Write new states of some searches, together with the last states of the others."""
        if self._file is None:
            return
        self._states.update(states)
        self._file.save(
            {
                f"{name}{_PART}{own}": array
                for name, state in self._states.items()
                for own, array in state.items()
            }
        )


@dataclass(frozen=True, eq=False)
class _Part:
    """The part of a checkpoint in which one of several searches keeps its state."""

    parts: SearchStates
    name: str

    @property
    def state(self) -> Arrays | None:
        return self.parts.state(self.name)

    @property
    def trouble(self) -> str | None:
        return self.parts.trouble

    def save(self, state: Arrays) -> None:
        self.parts.save({self.name: state})


@contextmanager
def checkpoint_of(settings: Any, owner: Callable[[], Mapping[str, str]]) -> Iterator[SearchStates]:
    """Open the checkpoint that the settings ask for, which may be a part of another one.

    Parameters
    ----------
    settings : Settings
        Uses checkpoint, resume and overwrite.
    owner : callable
        Returns the digests that `Checkpoint` takes.

    Raises
    ------
    CheckpointError, OutputError
        If the file cannot be used.
    """
    place = settings.checkpoint
    if not isinstance(place, Path):
        yield SearchStates(place)
        return
    with Checkpoint(place, owner(), settings.resume, settings.overwrite) as file:
        yield SearchStates(file)


def check_checkpoint(path: Path, resume: bool, overwrite: bool) -> None:
    """Check that a search can keep its state in a file.

    Raises
    ------
    CheckpointError
        If there is a checkpoint that is neither to be resumed nor replaced.
    OutputError
        If the file cannot be written, or is no checkpoint.
    """
    check_output(path, CHECKPOINT)
    if _is_there(path) and not (resume or overwrite):
        raise CheckpointError(
            f"there is a checkpoint {shown(path)} already.  Remedy: go on from it (--resume, "
            "resume=True), replace it (--overwrite, overwrite=True), or give another name"
        )


def _is_there(path: Path) -> bool:
    """Return whether this is a regular file that is not empty."""
    there = stat_or_none(path)
    return there is not None and path.is_file() and there.st_size > 0


def _write_signed(stream: BinaryIO, data: dict[str, Any]) -> None:
    """Write a line with a digest, followed by the arrays."""
    first = CHECKPOINT_START + VERSION + b" %064d\n" % 0
    stream.write(first)
    np.savez(stream, **data)
    stream.seek(len(first))
    digest = rest_digest(stream)
    stream.seek(0)
    stream.write(CHECKPOINT_START + VERSION + f" {digest}\n".encode())
    stream.seek(0, 2)


def _read_signed(path: Path) -> Arrays:
    """Read the arrays of a file and check its digest.

    Raises
    ------
    CheckpointError
        If the file is of another version, damaged, or no checkpoint.
    """
    anew = "Remedy: begin anew (--overwrite, overwrite=True, instead of --resume)"
    try:
        if not is_of(path, CHECKPOINT):
            raise CheckpointError(f"{shown(path)} is no checkpoint.  Remedy: give another file")
        with path.open("rb") as stream:
            line = stream.readline(200)[len(CHECKPOINT_START) :].rstrip()
            version, _, digest = line.partition(b" ")
            if version != VERSION:
                raise CheckpointError(
                    f"the checkpoint {shown(path)} is one of another version of lipyomo.  {anew}"
                )
            begin = stream.tell()
            if rest_digest(stream).encode() != digest:
                raise CheckpointError(
                    f"the checkpoint {shown(path)} is damaged: it is not what was written.  {anew}"
                )
            stream.seek(begin)
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint {shown(path)} cannot be read: {why(error)}"
        ) from None
