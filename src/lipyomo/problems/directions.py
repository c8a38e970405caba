"""Directions of a constant: some inputs, weighted inputs, or any linear map.

A problem with directions T (d x k) asks for ``sup ||J(x) T||`` over the points x of the domain,
with the input norm on R^k: all inputs vary in x, and only the argument of J is restricted.

- ``wrt`` selects inputs: T consists of columns of the identity;
- ``weights`` w scale them, ``T = diag(w)[:, wrt]``: the norm of a direction v is ``|v / w|``, so an
  input of large weight is cheap to change, one of infinite weight changes for free, and one of
  weight zero does not change;
- ``directions`` is T itself, for metrics and seminorms.

Directions of frozen inputs do not count, as a constant compares points of the domain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpq_mat

from lipyomo.base.arguments import brief, real_numbers, whole_number
from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, Matrix, compact, read_only
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.exact import exact
from lipyomo.networks.naming import Names, called

Number = TypeVar("Number", bound=Any)

Selection: TypeAlias = "int | slice | Iterable[int] | str | Iterable[str]"
"""A selection of inputs: an index, a slice, indices, a mask of all inputs, or names."""


def parse_directions(
    inputs: int,
    directions: npt.ArrayLike | Matrix | None = None,
    wrt: Selection | None = None,
    weights: npt.ArrayLike | None = None,
) -> Matrix | None:
    """Return the matrix T, shape (d, k), read-only; None for the identity.

    Parameters
    ----------
    inputs : int
        d.
    directions : array_like, shape (d, k), optional
        T itself; a vector is a single direction.
    wrt : int, slice, indices or mask, optional
        Inputs that the directions change; negative indices count from the end.
    weights : array_like, shape (d,), or float, optional
        Nonnegative; inputs of infinite weight are left to `free_directions`.

    Raises
    ------
    ProblemError
        If the arguments do not fit the inputs or each other, or no direction is left.
    """
    if directions is not None:
        if wrt is not None or weights is not None:
            raise ProblemError("give either directions, or wrt and weights")
        return _given(directions, inputs)
    if wrt is None and weights is None:
        return None
    chosen = np.arange(inputs) if wrt is None else selected(wrt, inputs)
    scale = np.ones(inputs) if weights is None else _weights(weights, inputs)
    if not scale[chosen].any():
        raise ProblemError("all inputs have weight zero.  Remedy: give one a positive weight")
    chosen = chosen[(scale[chosen] != 0.0) & np.isfinite(scale[chosen])]
    if not chosen.size:  # all other weights are infinite
        return read_only(np.zeros((inputs, 1)))
    if np.array_equal(chosen, np.arange(inputs)) and (scale == 1.0).all():
        return None
    return _columns(chosen, scale[chosen], inputs)


def free_directions(
    inputs: int, weights: npt.ArrayLike, wrt: Selection | None = None
) -> Matrix | None:
    """Return the unit vectors (d, f) of inputs of infinite weight, read-only; None without any.

    Parameters are those of `parse_directions`.
    """
    chosen = np.arange(inputs) if wrt is None else selected(wrt, inputs)
    free = chosen[np.isinf(_weights(weights, inputs)[chosen])]
    return _columns(free, np.ones(free.size), inputs) if free.size else None


def selected(wrt: Any, inputs: int) -> IntArray:
    """Return the selected inputs in ascending order.

    Raises
    ------
    ProblemError
        If there is none, an index is out of range, or an input is named twice.
    """
    if isinstance(wrt, slice):
        chosen = np.arange(inputs)[wrt]
    elif isinstance(wrt, str) or not isinstance(wrt, Iterable | int | np.integer):
        raise ProblemError(f"wrt must be indices of inputs or a slice, not {brief(wrt)}")
    else:
        entries = np.asarray(list(wrt) if isinstance(wrt, Iterable) else [wrt])
        if entries.dtype == bool:
            if entries.shape != (inputs,):
                raise ProblemError(f"wrt is a mask of {entries.size} for {inputs} inputs")
            entries = np.flatnonzero(entries)
        whole = [whole_number(k, "an index of wrt", ProblemError, None) for k in entries]
        outside = [k for k in whole if not -inputs <= k < inputs]
        if outside:
            raise ProblemError(
                f"wrt has input {outside[0]}, the network's {inputs} inputs are 0 to {inputs - 1}"
            )
        chosen = np.array(whole, dtype=np.intp) % inputs
    if not chosen.size:
        raise ProblemError("wrt names no input.  Remedy: name one, or leave it out")
    if np.unique(chosen).size != chosen.size:
        raise ProblemError("wrt names an input twice")
    return np.sort(chosen)


def without_frozen(directions: Matrix, frozen: BoolArray) -> Matrix:
    """Remove the directions that change frozen inputs.

    Parameters
    ----------
    directions : Matrix, shape (d, k)
    frozen : ndarray of bool, shape (d,)

    Raises
    ------
    ProblemError
        If no direction is left, or if combinations of removed directions would not change frozen
        inputs: they form a section of the ball of directions, which is no ball of the same norm.
    """
    rows = sp.csr_array(directions)[np.flatnonzero(frozen)]
    touching = np.flatnonzero(abs(rows).sum(axis=0) > 0)
    if not touching.size:
        return directions
    held = rows[:, touching].toarray()
    held = held[held.any(axis=1)]
    if len(held) < touching.size or _rank(held) < touching.size:
        raise ProblemError(
            "some of the directions move inputs that cannot move in the domain, and combinations "
            "of them do not.  Remedy: give directions of the inputs that can move; those of a "
            "metric P come from its block for these inputs, not from that of its inverse"
        )
    kept = np.setdiff1d(np.arange(directions.shape[1]), touching)
    if not kept.size:
        raise ProblemError(
            "all directions move inputs that cannot move in the domain.  Remedy: let them move, or "
            "name others"
        )
    return _kept(sp.csr_array(directions)[:, kept])


def along_columns(
    rows: Sequence[Sequence[Number]], directions: Matrix, number: Callable[[float], Number]
) -> list[list[Number]]:
    """Multiply rows with the directions, in the arithmetic of the rows.

    Parameters
    ----------
    rows : sequence of sequences of numbers, each of length d
        Rational numbers, or balls.
    directions : Matrix, shape (d, k)
    number : callable
        Converts a float to such a number.
    """
    columns = sp.csc_array(directions)
    found: list[list[Number]] = [[] for _ in rows]
    for start, end in pairwise(columns.indptr.tolist()):
        entries = map(number, columns.data[start:end].tolist())
        terms = list(zip(columns.indices[start:end].tolist(), entries, strict=True))
        for own, row in zip(found, rows, strict=True):
            own.append(sum((row[i] * entry for i, entry in terms), number(0.0)))
    return found


def describe_directions(directions: Matrix, inputs: Names | None = None) -> str:
    """Describe directions, as ``wrt 0, 3``, ``3 weighted inputs`` or ``2 directions``."""
    matrix = sp.coo_array(directions)
    matrix.eliminate_zeros()
    rows, columns = matrix.coords
    single = matrix.nnz == directions.shape[1] == np.unique(rows).size == np.unique(columns).size
    if single and (matrix.data == 1.0).all():
        names = [called(k, inputs, "") for k in np.sort(rows).tolist()]
        return f"wrt {', '.join(names if len(names) <= 6 else [*names[:3], '...', *names[-2:]])}"
    kind = "weighted input" if single else "direction"
    count = directions.shape[1]
    return f"{count} {kind}{'' if count == 1 else 's'}"


def _given(directions: Any, inputs: int) -> Matrix:
    """Check and convert a given matrix of directions."""
    if sp.issparse(directions):
        matrix = sp.csr_array(directions)
        numbers = real_numbers(matrix.data, "the directions", ProblemError)
        matrix = sp.csr_array((numbers, matrix.indices, matrix.indptr), shape=matrix.shape)
    else:
        numbers = real_numbers(directions, "the directions", ProblemError)
        matrix = numbers.reshape(-1, 1) if numbers.ndim == 1 else numbers
    if matrix.ndim != 2 or matrix.shape[0] != inputs or not matrix.shape[1]:
        raise ProblemError(
            f"the directions have shape {matrix.shape}, expected ({inputs}, k): a column is a "
            "direction, a row an input"
        )
    if not np.isfinite(numbers).all():
        raise ProblemError("the directions hold NaN or infinite entries")
    return _kept(matrix)


def _weights(weights: object, inputs: int) -> FloatArray:
    """Check the weights, and repeat a scalar for all inputs."""
    found = real_numbers(weights, "the weights", ProblemError).reshape(-1)
    if found.size == 1:
        found = np.full(inputs, found[0])
    if found.size != inputs:
        raise ProblemError(f"{found.size} weights for {inputs} inputs.  Remedy: give one an input")
    if not (found >= 0).all():
        raise ProblemError("weights must be numbers of at least zero")
    return found


def _columns(inputs: IntArray, sizes: FloatArray, count: int) -> Matrix:
    """Return a matrix with `count` rows whose columns are multiples of unit vectors."""
    places = inputs, np.arange(inputs.size)
    return _kept(sp.csr_array((sizes, places), shape=(count, inputs.size)))


def _rank(matrix: FloatArray) -> int:
    """Return the rank, in exact arithmetic."""
    return int(fmpq_mat([[exact(entry) for entry in row] for row in matrix.tolist()]).rank())


def _kept(matrix: Matrix) -> Matrix:
    """Return a read-only copy, sparse where that pays."""
    found = compact(matrix)
    if isinstance(found, np.ndarray):
        return read_only(np.array(found))
    for part in (found.data, found.indices, found.indptr):
        read_only(part)
    return found
