"""Domains from VNN-LIB files (https://www.vnnlib.org): the conditions on the inputs.

Strict inequalities are treated as closed ones, which does not change the constant.  Conditions on
outputs and hidden tensors are ignored, but counted, as they do not restrict the inputs.  Inputs of
several networks that are equal entry by entry are identified.

A conjunction of bounds is a box, one with further linear rows a polytope.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import DomainError
from lipyomo.problems.domains.base import Domain
from lipyomo.problems.domains.box import Box
from lipyomo.problems.domains.polytope import Polytope
from lipyomo.problems.domains.query import Clause, Condition, Query, read_query


@dataclass(frozen=True)
class VnnLib:
    """The domains of a VNN-LIB file.

    Attributes
    ----------
    parts : tuple of Domain
        The inputs lie in one of them; several if the conditions have an ``or``.
    ignored : int
        Number of conditions on outputs or hidden tensors.
    """

    parts: tuple[Domain, ...]
    ignored: int


def read_vnnlib(path: str | os.PathLike[str]) -> VnnLib:
    """Read the domains of a VNN-LIB file.

    Parameters
    ----------
    path : str or path-like
        May be compressed (``.gz``).

    Returns
    -------
    VnnLib

    Raises
    ------
    DomainError
        If the file cannot be read, has conditions that are not linear (names the line), or has
        several networks whose inputs are not the same.
    """
    query = read_query(path, outputs=False)
    parts = []
    for k, clause in enumerate(query.clauses):
        rows, size = clause, query.inputs
        if len(query.networks) > 1:
            rows, size = _shared(query, clause)
        parts.append(domain_of(rows, size, f"{query.name}: part {k + 1} of the conditions"))
    return VnnLib(tuple(parts), query.ignored)


def _shared(query: Query, clause: Clause) -> tuple[Clause, int]:
    """Return the rows over the inputs that all networks share, and the number of inputs."""
    places, size = same_inputs(clause, query.inputs)
    starts = np.cumsum([0, *(network.inputs for network in query.networks)])
    size = query.networks[0].inputs
    for start, network in zip(starts, query.networks, strict=False):
        if not np.array_equal(places[start : start + network.inputs], np.arange(size)):
            raise DomainError(
                f"{query.name} declares the network '{network.name}', whose inputs are not those "
                f"of '{query.networks[0].name}': they have no domain in common.  Remedy: "
                "'lipyomo property' answers questions about several networks"
            )
    return renumbered(clause, places), size


def same_inputs(clause: Clause, inputs: int) -> tuple[IntArray, int]:
    """Identify inputs that are equal by the conditions of a clause.

    Parameters
    ----------
    clause : Clause
    inputs : int

    Returns
    -------
    places : ndarray of int, shape (inputs,)
        The variable that stands for each input; variables are in the order of their first inputs.
    count : int
        Number of variables.
    """
    below = {
        (first, second)
        for row in clause
        if not row.strict and row.constant == 0 and row.of_inputs and len(row.coefficients) == 2
        for first, second in [_compared(row)]
        if first is not None
    }
    parent = list(range(inputs))

    def top(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for first, second in below:
        if first < second and (second, first) in below:
            one, other = sorted((top(first), top(second)))
            parent[other] = one
    tops = [top(k) for k in range(inputs)]
    _, places = np.unique(tops, return_inverse=True)
    return places.astype(np.int64), int(places.max(initial=-1)) + 1


def _compared(row: Condition) -> tuple[int | None, int]:
    """Return (i, j) for a row ``x_i <= x_j``; i is None for any other row."""
    (i, a), (j, b) = row.coefficients
    if a + b != 0:
        return None, j
    return (i, j) if a > 0 else (j, i)


def renumbered(clause: Iterable[Condition], places: IntArray) -> Clause:
    """Rewrite rows over inputs as rows over `places`, without those that always hold."""
    found = []
    for row in clause:
        total: dict[int, Fraction] = {}
        for k, a in row.coefficients:
            at = int(places[k]) if k >= 0 else k
            total[at] = total.get(at, Fraction(0)) + a
        left = tuple(sorted((k, a) for k, a in total.items() if a))
        if left or row.constant > 0 or (row.strict and row.constant == 0):
            found.append(Condition(left, row.constant, row.strict))
    return tuple(dict.fromkeys(found))


def bounds_of(
    clause: Iterable[Condition],
) -> dict[int, tuple[Fraction | None, Fraction | None]] | None:
    """Return the exact bounds of inputs by rows in single inputs; None if they are infeasible."""
    found: dict[int, tuple[Fraction | None, Fraction | None]] = {}
    for row in clause:
        if not row.coefficients and (row.constant > 0 or (row.strict and row.constant == 0)):
            return None
        if len(row.coefficients) != 1 or not row.of_inputs:
            continue
        ((j, a),) = row.coefficients
        end = -row.constant / a
        low, high = found.get(j, (None, None))
        if a > 0:
            high = end if high is None else min(high, end)
        else:
            low = end if low is None else max(low, end)
        if low is not None and high is not None and low > high:
            return None
        found[j] = low, high
    return found


def domain_of(clause: Clause, size: int, where: str, outwards: bool = False) -> Domain:
    """Convert rows over inputs to a box or polytope.

    Parameters
    ----------
    clause : Clause
    size : int
    where : str
        For messages.
    outwards : bool, optional
        Whether to round outwards, so that no point is lost; by default to the nearest numbers.

    Raises
    ------
    DomainError
        If it is empty or not supported.
    """
    lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
    normals: list[FloatArray] = []
    right: list[float] = []
    try:
        for row in clause:
            if len(row.coefficients) > 1:
                normals.append(np.zeros(size))
                for j, a in row.coefficients:
                    normals[-1][j] = float(a)
                    if outwards and Fraction(normals[-1][j]) != a:
                        raise DomainError(f"the coefficient {a} is no float64 number")
                right.append(_rounded(-row.constant, outwards))
            elif row.coefficients:
                ((j, a),) = row.coefficients
                if a > 0:
                    upper[j] = min(upper[j], _rounded(-row.constant / a, outwards))
                else:
                    lower[j] = max(lower[j], 0.0 - _rounded(row.constant / a, outwards))
            elif row.constant > 0:
                raise DomainError("it never holds")
        return Polytope(normals, right, lower, upper) if normals else Box(lower, upper)
    except DomainError as error:
        raise DomainError(f"{where}: {error}") from None
    except OverflowError:
        raise DomainError(f"{where}: a number is too large for float64") from None


def _rounded(end: Fraction, up: bool) -> float:
    """Round to the nearest float64 number, or upwards."""
    number = float(end)
    return float(np.nextafter(number, np.inf)) if up and Fraction(number) < end else number
