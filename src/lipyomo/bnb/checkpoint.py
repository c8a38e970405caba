"""Checkpoints: the state of a search in one file of plain arrays, replaced in one step.

The file is NumPy's ``.npz`` without pickled objects.  Lists of arrays of different lengths are
stored end to end, with their lengths.  Multipliers of pre-activation bounds are left out: they are
found again.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from lipyomo.affine.system import FlatPhases
from lipyomo.bnb.counters import Counters
from lipyomo.bnb.experience import FEATURES, Experience
from lipyomo.bnb.node import Node, Split, Warm
from lipyomo.bounds.pairs import Pairs
from lipyomo.errors import LipyomoError
from lipyomo.network import BoolArray, FloatArray
from lipyomo.problem import LipschitzProblem

VERSION = 4

_STACKED = ("phases", "lower", "upper", "low", "high")
_RAGGED = ("targets", "target_bounds", "proved", "units", "pool", "candidates")


class CheckpointError(LipyomoError):
    """A checkpoint cannot be written, read, or belongs to another problem."""


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


def fingerprint(problem: LipschitzProblem) -> str:
    """A digest of the network, the domain and the norms."""
    digest = hashlib.sha256()
    for layer in problem.network.layers:
        for array in (layer.dense_weight, layer.bias, layer.left, layer.right):
            digest.update(np.ascontiguousarray(array).tobytes())
    domain = problem.domain
    rows = domain.rows
    for array in (domain.lower, domain.upper, rows.A.toarray(), rows.b):
        digest.update(np.ascontiguousarray(array).tobytes())
    ball = [getattr(domain, name, None) for name in ("norm", "radius")]
    point = getattr(domain, "point", None)
    digest.update(repr((type(domain).__name__, ball)).encode())
    digest.update(b"" if point is None else np.ascontiguousarray(point).tobytes())
    digest.update(f"{problem.input_norm} {problem.output_norm.name}".encode())
    vertices = problem.dual_vertices
    digest.update(b"" if vertices is None else np.ascontiguousarray(vertices).tobytes())
    return digest.hexdigest()


def save(path: Path, problem: LipschitzProblem, saved: Saved) -> None:
    """Write a checkpoint; a file that is there stays whole until the new one is.

    Raises
    ------
    CheckpointError
        If the file cannot be written.
    """
    nodes = saved.nodes
    data: dict[str, Any] = {
        "version": np.array(VERSION),
        "problem": np.array(fingerprint(problem)),
        "points": saved.points,
        "on": saved.on,
        "best": np.zeros((0, saved.points.shape[1])) if saved.best is None else saved.best[None],
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
    warm = [(i, target, node.warm[target]) for i, node in enumerate(nodes) for target in node.warm]
    data["warm_keys"] = np.array([entry[:2] for entry in warm], dtype=np.int64).reshape(-1, 2)
    _put(data, "warm", [entry[2] for entry in warm])
    for name, value in vars(saved.counters).items():
        data[f"counters_{name}"] = np.array(value)
    for item in fields(saved.experience):
        data[f"experience_{item.name}"] = np.asarray(getattr(saved.experience, item.name))
    draft = path.with_name(path.name + ".part")
    try:
        with draft.open("wb") as file:
            np.savez(file, **data)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise CheckpointError(
            f"the checkpoint '{path}' cannot be written ({error.strerror}).  Remedy: a folder that "
            "exists, is writable and has room"
        ) from None


def load(path: Path, problem: LipschitzProblem) -> Saved:
    """Read a checkpoint of `problem`.

    Raises
    ------
    CheckpointError
        If the file is no checkpoint, or one of another problem.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            data = {name: file[name] for name in file.files}
        version, owner = int(data["version"]), str(data["problem"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        raise CheckpointError(
            f"'{path}' is no checkpoint of a search ({error}).  Remedy: leave out --resume to "
            "begin anew"
        ) from None
    if version != VERSION:
        raise CheckpointError(f"'{path}' was written by another version of lipyomo")
    if owner != fingerprint(problem):
        raise CheckpointError(
            f"the checkpoint '{path}' belongs to another network, domain or norm.  Remedy: give "
            "the same problem, or another file"
        )
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
        data["best"][0] if len(data["best"]) else None,
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
