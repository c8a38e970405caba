"""Substitution for many boxes at once: rows of a layer taken back to the inputs through lines.

What a unit passes on lies between the lines ``(m - h) u + q - e`` and ``(m + h) u + q + e`` of what
enters it, so that a row X of what is passed on is at most ``(X m + |X| h) u + X q + |X| e``.  Rows
of both signs of a layer have the first step in common.

Rounding, in float32 or float64.  A row X becomes ``fl(fl(X m + |X| h) W)``, which differs from
what it stands for by at most ``unit |X| (|m| + |h|) pace``; pace >= |W| |t| is the size of all
that u is made of; constants are off by at most `unit` times the sums of their absolute terms.  So e
has ``unit ((|m| + |h|) pace + |q| + e)`` added once, and all rows are sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.system.memory import CACHED

Rough = npt.NDArray[Any]
"""Float32 or float64 numbers."""


class TwoLines(NamedTuple):
    """Lines of the units of a layer, m, h, q and e, of shapes (N, units); None for zero."""

    middle: Rough
    half: Rough
    shift: Rough | None
    error: Rough

    @classmethod
    def of(
        cls,
        middle: Rough,
        half: Rough,
        offsets: tuple[FloatArray, FloatArray],
        pace: FloatArray,
        unit: float,
    ) -> TwoLines:
        """Lines with offsets below and above, of units that are made of what has size `pace`."""
        shift = (0.5 * (offsets[0] + offsets[1])).astype(middle.dtype)
        error = np.maximum(offsets[1] - shift, shift - offsets[0])
        lost = (np.abs(middle) + np.abs(half)) * pace + np.abs(shift) + error
        return cls(middle, half, shift, (error + unit * lost).astype(middle.dtype))

    def part(self, some: slice | IntArray) -> TwoLines:
        """Those of some boxes."""
        middle, half, shift, error = self
        shift = shift if shift is None else shift[some]
        return TwoLines(middle[some], half[some], shift, error[some])


def unit_of(shapes: Iterable[tuple[int, ...]], kind: npt.DTypeLike) -> float:
    """What sums of products with matrices are off by, relative to their absolute terms.

    Each step pays for itself: for the longest sum, the rounding of weights and slopes, and the
    sum of the errors of all steps.
    """
    sizes = [max(shape) for shape in shapes]
    return (max(sizes) + 4 * len(sizes) + 16) * float(np.finfo(kind).eps)


def faint(size: Rough, pace: Rough) -> Rough:
    """What a row loses in a layer where its entries underflow, shape (N, 1, ...).

    Entries are off by the least number there is, each time that they are multiplied: on units of a
    certain size (N, n, ...) that are made of `pace`, and of constants of which there are as many.
    """
    least = 4.0 * float(np.finfo(size.dtype).smallest_subnormal)
    count = 2.0 * (size.shape[1] + pace.shape[1])
    total = size.sum(axis=1, keepdims=True) + pace.sum(axis=1, keepdims=True) + count
    return np.asarray(least * total)


def substituted(
    weight: Rough,
    weights: Sequence[Rough],
    lines: Sequence[TwoLines],
    reach: Rough,
    middle: Rough | None = None,
) -> Rough:
    """Upper bounds of ``weight t`` and then of ``-weight t``, shape (N, 2 r).

    A few boxes at a time, whose rows stay in the cache.

    Parameters
    ----------
    weight : ndarray, shape (r, units), or (N, r, units)
        On what the last of some layers passes on.
    weights : sequence of ndarray
        Of these layers.
    lines : sequence of TwoLines
    reach : ndarray, shape (N, inputs)
        How far the inputs are from their middle.
    middle : ndarray, shape (N, inputs), optional
        Zero by default.
    """
    found = np.empty((len(reach), 2 * weight.shape[-2]), dtype=weight.dtype)
    widest = max(weight.shape[-1], *(matrix.shape[1] for matrix in weights), 1)
    count = max(1, CACHED // (2 * found.itemsize * found.shape[1] * widest))
    for at in range(0, len(reach), count):
        some = slice(at, at + count)
        own = weight if weight.ndim == 2 else weight[some]
        rows, bounds = taken_back(own, weights, [each.part(some) for each in lines])
        found[some] = bounds + sums_of_values(np.abs(rows), reach[some])
        if middle is not None:
            found[some] += sums_of_values(rows, middle[some])
    return found


def taken_back(
    weight: Rough, weights: Sequence[Rough], lines: Sequence[TwoLines]
) -> tuple[Rough, Rough]:
    """Rows of both signs (n, 2 r, inputs), and constants (n, 2 r).

    Without layers n is 1 where rows are the same for all boxes.
    """
    every = weight if weight.ndim == 3 else weight[None]
    if not lines:
        rows = np.concatenate([every, -every], axis=1)
        return rows, np.zeros(rows.shape[:2], dtype=rows.dtype)
    last, size = lines[-1], np.abs(every)
    aside = sums_of_values(size, last.error)
    along = 0.0 if last.shift is None else sums_of_values(every, last.shift)
    constant = np.concatenate([aside + along, aside - along], axis=1)
    along, aside = every * last.middle[:, None], size * last.half[:, None]
    rows = through(np.concatenate([aside + along, aside - along], axis=1), weights[-1])
    for matrix, own in zip(weights[-2::-1], lines[-2::-1], strict=True):
        size = np.abs(rows)
        constant += sums_of_values(size, own.error)
        if own.shift is not None:
            constant += sums_of_values(rows, own.shift)
        size *= own.half[:, None]
        rows *= own.middle[:, None]
        rows += size
        rows = through(rows, matrix)
    return rows, constant


def sums_of_values(rows: Rough, values: Rough) -> Rough:
    """Rows (n, r, k), or (1, r, k), times values (n, k)."""
    if len(rows) == 1:
        return np.asarray(values @ rows[0].T)
    return np.asarray(np.matmul(rows, values[:, :, None])[:, :, 0])


def through(rows: Rough, weight: Rough) -> Rough:
    """Rows (N, r, n) times a matrix, as one product."""
    flat = rows.reshape(-1, rows.shape[2]) @ weight
    return np.asarray(flat.reshape(*rows.shape[:2], weight.shape[1]))
