"""Substitution for many boxes at once: rows of a layer are taken back to the inputs by lines.

The output of a unit lies between the lines ``(m - h) u + q - e`` and ``(m + h) u + q + e`` of its
input u, so that a row X of outputs is at most ``(X m + |X| h) u + X q + |X| e``.  Rows of both
signs of a layer share the first step.

Rounding, in float32 or float64.  A row X becomes ``fl(fl(X m + |X| h) W)``, which differs from the
exact row by at most ``unit |X| (|m| + |h|) pace``, where pace >= |W| |t| bounds the sum of the
absolute terms of u.  Constants have an error of at most `unit` times the sums of their absolute
terms.  So ``unit ((|m| + |h|) pace + |q| + e)`` is added to e once, and then all rows are sound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.system.memory import CACHED

Rough = npt.NDArray[Any]
"""Arrays of float32 or float64 numbers."""


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
        """Return lines with offsets below and above, of units with absolute terms up to `pace`."""
        shift = (0.5 * (offsets[0] + offsets[1])).astype(middle.dtype)
        error = np.maximum(offsets[1] - shift, shift - offsets[0])
        lost = (np.abs(middle) + np.abs(half)) * pace + np.abs(shift) + error
        return cls(middle, half, shift, (error + unit * lost).astype(middle.dtype))

    def part(self, some: slice | IntArray) -> TwoLines:
        """Select some of the boxes."""
        middle, half, shift, error = self
        shift = shift if shift is None else shift[some]
        return TwoLines(middle[some], half[some], shift, error[some])


def unit_of(shapes: Iterable[tuple[int, ...]], kind: npt.DTypeLike) -> float:
    """Bound the error of sums of products with matrices, relative to their absolute terms.

    It covers the longest sum, the rounding of weights and slopes, and the sum of the errors of all
    steps.
    """
    sizes = [max(shape) for shape in shapes]
    return (max(sizes) + 4 * len(sizes) + 16) * float(np.finfo(kind).eps)


def faint(size: Rough, pace: Rough) -> Rough:
    """Bound the error of a row in a layer where its entries underflow, shape (N, 1, ...).

    Each multiplication of an entry has an error of up to the smallest positive number.  This is
    multiplied by units of sizes `size` (N, n, ...), by their inputs of sizes `pace`, and by as many
    constants.
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
    """Bound ``weight t`` and then ``-weight t`` from above, shape (N, 2 r).

    Few boxes are processed at a time, so that their rows stay in the cache.

    Parameters
    ----------
    weight : ndarray, shape (r, units), or (N, r, units)
        Rows on the outputs of the last of some layers.
    weights : sequence of ndarray
        The weights of these layers.
    lines : sequence of TwoLines
    reach : ndarray, shape (N, inputs)
        The largest distance of the inputs from their middle.
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
    """Return rows of both signs (n, 2 r, inputs), and constants (n, 2 r).

    If there are no layers and the rows are the same for all boxes, n is 1.
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
    """Multiply rows (n, r, k), or (1, r, k), by values (n, k)."""
    if len(rows) == 1:
        return np.asarray(values @ rows[0].T)
    return np.asarray(np.matmul(rows, values[:, :, None])[:, :, 0])


def through(rows: Rough, weight: Rough) -> Rough:
    """Multiply rows (N, r, n) by a matrix, as one product."""
    flat = rows.reshape(-1, rows.shape[2]) @ weight
    return np.asarray(flat.reshape(*rows.shape[:2], weight.shape[1]))
