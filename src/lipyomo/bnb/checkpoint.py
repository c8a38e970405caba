"""Checkpoints: the state of a search in one file of plain arrays, replaced in one step.

The file is a line with a digest of all that follows, and NumPy's ``.npz`` without pickled objects.
Lists of arrays of different lengths are stored end to end, with their lengths.  Multipliers of
pre-activation bounds are left out: they are found again.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from lipyomo.affine.system import FlatPhases
from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import FEATURES, Experience
from lipyomo.bnb.node import Node, Split, Warm
from lipyomo.bounds.pairs import Pairs
from lipyomo.digest import array_digest, network_digest
from lipyomo.errors import LipyomoError
from lipyomo.network import BoolArray, FloatArray
from lipyomo.outputs import (
    CHECKPOINT,
    CHECKPOINT_START,
    OutputError,
    check_output,
    is_of,
    look,
    shown,
    why,
    written,
)
from lipyomo.problem import LipschitzProblem

VERSION = 5

SOON = 5.0
"""Seconds until the first checkpoint, whatever is known by then."""

_STACKED = ("phases", "lower", "upper", "low", "high")
_RAGGED = ("targets", "target_bounds", "proved", "units", "pool", "candidates")


class CheckpointError(LipyomoError):
    """A checkpoint cannot be read, belongs to another problem, or would be lost."""


@dataclass
class Known:
    """What is known of a problem, with or without a search.

    Attributes
    ----------
    best : ndarray, shape (d,) or (2, d), or None
        The best point, in the inputs that can move; of two rows, their sum.
    upper : float
        A proved bound of the constant.
    """

    best: FloatArray | None = None
    upper: float = math.inf


@dataclass
class Saved:
    """What a search has to know in order to go on.

    Attributes
    ----------
    nodes : list of Node
    points : ndarray, shape (P, d)
        Of the pool, with the sides of their units `on` (P, N).
    best : ndarray or None
        The incumbent.
    closed : float
        Largest bound of closed nodes.
    root : float
    open_units : int
    next_climb : float
    counters : Counters
    experience : Experience
    known : ndarray of int8 or None
        Phases under which the tree was made.
    pairs, chosen : Pairs
        Of units that exclude each other, and those among them with multipliers.
    """

    nodes: list[Node]
    points: FloatArray
    on: BoolArray
    best: FloatArray | None
    closed: float
    root: float
    open_units: int
    next_climb: float
    counters: Counters
    experience: Experience
    known: FlatPhases | None
    pairs: Pairs
    chosen: Pairs


class Checkpoint:
    """The file in which a search keeps its state: a context that writes what is known soon.

    Parameters
    ----------
    path : Path
    problem : LipschitzProblem
        The one that is searched, without frozen inputs.
    resume : bool, optional
        Go on from the file, if it is there.
    overwrite : bool, optional
        Replace a checkpoint that is there.
    known : callable, optional
        What is known so far; it is asked from another thread as well.

    Attributes
    ----------
    before : tuple of (Known, Saved or None), or None
        What the file held, for a search that is resumed; there is no `Saved` where a search ended
        before it had a root.
    trouble : str or None
        Why the state could not be written the last time.

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
        problem: LipschitzProblem,
        resume: bool = False,
        overwrite: bool = False,
        known: Callable[[], Known] = Known,
    ) -> None:
        check_checkpoint(path, resume, overwrite)
        self._path, self._problem, self._known = path, problem, known
        self.before = self._load() if resume and _is_there(path) else None
        self.trouble: str | None = None
        self._written = self.before is not None
        self._writing = threading.Lock()
        self._timer = threading.Timer(SOON, self._save_known)
        self._timer.daemon = True

    def __enter__(self) -> Checkpoint:
        if not self._written:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if kind is None or not issubclass(kind, LipyomoError):
            self._save_known()

    @cached_property
    def _owner(self) -> str:
        """A digest of the network, the domain and the norms."""
        problem, domain = self._problem, self._problem.domain
        rows = domain.rows
        facts: list[Any] = [domain.lower, domain.upper, rows.b]
        facts += [rows.A.indptr, rows.A.indices, rows.A.data]
        facts += [getattr(domain, name, None) for name in ("radius", "point")]
        facts.append(problem.dual_vertices)
        names = type(domain).__name__, getattr(domain, "norm", None)
        return " ".join(
            [
                network_digest(problem.network),
                array_digest([] if fact is None else fact for fact in facts),
                f"{names} {problem.input_norm} {problem.output_norm.name}",
            ]
        )

    def _save_known(self) -> None:
        """Write what is known, unless there is a checkpoint already."""
        if not self._written:
            self._write({})

    def save(self, saved: Saved) -> None:
        """Write the state of a search; what is there stays whole until the new file is.

        If that fails, `trouble` says why, and the search can go on.
        """
        nodes = saved.nodes
        data: dict[str, Any] = {
            "points": saved.points,
            "on": saved.on,
            "numbers": np.array([saved.closed, saved.root, saved.open_units, saved.next_climb]),
            "dropped": np.array([node.dropped for node in nodes]),
        }
        if saved.known is not None:
            data["known"] = saved.known
        for name, pairs in (("pairs", saved.pairs), ("chosen", saved.chosen)):
            data[name] = np.array([pairs.first, pairs.second, pairs.apart], dtype=np.int64)
        for name in _STACKED:
            data[name] = np.array([getattr(node, name) for node in nodes])
        for name in _RAGGED:
            _put(data, name, [getattr(node, name) for node in nodes])
        _put(data, "outlook", [node.outlook.reshape(-1) for node in nodes])
        _put(data, "trail", [_numbers(node.trail) for node in nodes])
        keys = [(i, target) for i, node in enumerate(nodes) for target in node.warm]
        data["warm_keys"] = np.array(keys, dtype=np.int64).reshape(-1, 2)
        _put(data, "warm", [nodes[i].warm[target] for i, target in keys])
        for name, value in vars(saved.counters).items():
            data[f"counters_{name}"] = np.array(value)
        for item in fields(saved.experience):
            data[f"experience_{item.name}"] = np.asarray(getattr(saved.experience, item.name))
        self._write(data, saved.best)

    def _write(self, data: dict[str, Any], best: FloatArray | None = None) -> None:
        with self._writing:
            if self._written and not data:  # a search was faster
                return
            known = self._known()
            best = known.best if best is None else best
            data["best"] = np.zeros(0) if best is None else best
            data["bound"] = np.array(known.upper)
            data["problem"] = np.array(self._owner)
            try:
                with written(self._path, CHECKPOINT) as stream:
                    _write_signed(stream, data)
            except OutputError as error:
                self.trouble = str(error)
            else:
                self.trouble, self._written = None, True

    def _load(self) -> tuple[Known, Saved | None]:
        path = self._path
        data = _read_signed(path)
        if str(data["problem"]) != self._owner:
            raise CheckpointError(
                f"the checkpoint {shown(path)} belongs to another network, domain or norm.  "
                "Remedy: give the same problem, or another file"
            )
        known = Known(data["best"] if data["best"].size else None, float(data["bound"]))
        return known, _saved(data, known.best) if "points" in data else None


def check_checkpoint(path: Path, resume: bool, overwrite: bool) -> None:
    """Refuse a file in which no search can keep its state.

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
    """Whether a file holds anything; devices and pipes do not."""
    there = look(path)
    return there is not None and path.is_file() and there.st_size > 0


def _write_signed(stream: BinaryIO, data: dict[str, Any]) -> None:
    """Write arrays behind the digest of what is written."""
    first = CHECKPOINT_START + b"%d %064d\n" % (VERSION, 0)
    stream.write(first)
    np.savez(stream, **data)
    stream.seek(len(first))
    digest = _rest(stream)
    stream.seek(0)
    stream.write(CHECKPOINT_START + f"{VERSION} {digest}\n".encode())
    stream.seek(0, 2)


def _rest(stream: BinaryIO) -> str:
    """SHA-256 of what is left to read."""
    digest = hashlib.sha256()
    while block := stream.read(2**20):
        digest.update(block)
    return digest.hexdigest()


def _read_signed(path: Path) -> dict[str, Any]:
    """Read the arrays of a file that is as it was written.

    Raises
    ------
    CheckpointError
        If it is not.
    """
    anew = "Remedy: begin anew (--overwrite, overwrite=True, instead of --resume)"
    try:
        if not is_of(path, CHECKPOINT):
            raise CheckpointError(f"{shown(path)} is no checkpoint.  Remedy: give another file")
        with path.open("rb") as stream:
            version, _, digest = (
                stream.readline(200)[len(CHECKPOINT_START) :].rstrip().partition(b" ")
            )
            if version != b"%d" % VERSION:
                raise CheckpointError(
                    f"the checkpoint {shown(path)} is one of another version of lipyomo.  {anew}"
                )
            begin = stream.tell()
            if _rest(stream).encode() != digest:
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


def _saved(data: dict[str, Any], best: FloatArray | None) -> Saved:
    """The state of a search, from its arrays."""
    ragged = {name: _taken(data, name) for name in (*_RAGGED, "outlook", "trail")}
    warm: list[Warm] = [{} for _ in data["dropped"]]
    for (i, target), values in zip(data["warm_keys"], _taken(data, "warm"), strict=True):
        warm[int(i)][int(target)] = values
    nodes = [
        Node(
            **{name: data[name][i] for name in _STACKED},
            **{name: ragged[name][i] for name in _RAGGED},
            dropped=float(data["dropped"][i]),
            warm=warm[i],
            outlook=ragged["outlook"][i].reshape(-1, FEATURES),
            trail=_splits(ragged["trail"][i]),
        )
        for i in range(len(warm))
    ]
    closed, root, open_units, next_climb = data["numbers"].tolist()
    counters = Counters(**{n: int(data[f"counters_{n}"]) for n in vars(Counters())})
    learnt: dict[str, Any] = {
        item.name: data[f"experience_{item.name}"][()] for item in fields(Experience)
    }
    return Saved(
        nodes,
        data["points"],
        data["on"],
        best,
        closed,
        root,
        int(open_units),
        next_climb,
        counters,
        Experience(**learnt),
        data.get("known"),
        *(Pairs(i, j, apart > 0) for i, j, apart in (data["pairs"], data["chosen"])),
    )


def _put(data: dict[str, Any], name: str, arrays: list[Any]) -> None:
    """Store arrays end to end."""
    data[name] = np.concatenate(arrays) if arrays else np.zeros(0)
    data[f"{name}_sizes"] = np.array([len(array) for array in arrays], dtype=np.int64)


def _taken(data: dict[str, Any], name: str) -> list[Any]:
    """The arrays that `_put` stored."""
    sizes = data[f"{name}_sizes"]
    return np.split(data[name], np.cumsum(sizes)[:-1]) if sizes.size else []


def _numbers(trail: tuple[Split, ...]) -> FloatArray:
    """Splits as numbers: index, phase (NaN for an input), ends (NaN for a unit), end to end."""
    rows = [
        (
            s.index,
            np.nan if s.phase is None else s.phase,
            *((np.nan, np.nan) if s.ends is None else s.ends),
        )
        for s in trail
    ]
    return np.array(rows, dtype=np.float64).reshape(-1)


def _splits(numbers: FloatArray) -> tuple[Split, ...]:
    """The splits that `_numbers` wrote."""
    return tuple(
        Split(int(index), None, (low, high)) if np.isnan(phase) else Split(int(index), int(phase))
        for index, phase, low, high in numbers.reshape(-1, 4).tolist()
    )
