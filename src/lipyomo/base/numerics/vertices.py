"""Vertices of a polytope in rational numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from flint import fmpq, fmpq_mat

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.params import PARAMS


def exact_vertices(rows: FloatArray, right: FloatArray) -> list[list[fmpq]] | None:
    """All vertices of the bounded polytope ``rows y <= right``, without rounding.

    Each is the one point in which as many rows as y has entries hold with equality, and satisfies
    the others.

    Parameters
    ----------
    rows : ndarray, shape (r, m)
    right : ndarray, shape (r,)

    Returns
    -------
    list of list of fmpq, or None
        None where there are too many sets of m rows.
    """
    count, m = rows.shape
    if math.comb(count, m) > PARAMS.sets:
        return None
    A = [[exact(a) for a in row] for row in rows.tolist()]
    b = [exact(value) for value in right.tolist()]
    found = {}
    for chosen in combinations(range(count), m):
        for y in _meeting([A[k] for k in chosen], [b[k] for k in chosen]):
            if all(_dot(row, y) <= end for row, end in zip(A, b, strict=True)):
                found[tuple((int(v.p), int(v.q)) for v in y)] = y
    return [found[key] for key in sorted(found)]


def _meeting(rows: list[list[fmpq]], right: list[fmpq]) -> Iterator[list[fmpq]]:
    """The point in which some rows meet, unless they are dependent."""
    m = len(rows)
    matrix = fmpq_mat(m, m, [value for row in rows for value in row])
    if matrix.det() != 0:
        yield list(matrix.solve(fmpq_mat(m, 1, right)).entries())


def _dot(row: list[fmpq], y: list[fmpq]) -> fmpq:
    return sum((a * v for a, v in zip(row, y, strict=True)), fmpq(0))
