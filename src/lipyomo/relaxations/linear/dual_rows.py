"""What dual ascent works on: which bounds, of which nodes, gathered into columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray

RealArray = npt.NDArray[Any]


@dataclass(frozen=True)
class WantedBounds:
    """Which bounds to compute: the largest value of ``sign * z_unit`` on a node.

    Attributes
    ----------
    node, unit : ndarray of int, shape (R,)
    sign : ndarray, shape (R,)
        +1 or -1.
    """

    node: IntArray
    unit: IntArray
    sign: FloatArray

    @property
    def count(self) -> int:
        """Number of bounds R."""
        return int(self.node.size)

    def __getitem__(self, pick: IntArray | BoolArray | slice) -> WantedBounds:
        return WantedBounds(self.node[pick], self.unit[pick], self.sign[pick])


@dataclass(frozen=True)
class NodeTriangles:
    """What a batch of B nodes gives the ascent.

    Attributes
    ----------
    chord, offset : ndarray, shape (B, N)
        c and o; the slope and zero for stable units.
    bend : ndarray, shape (B, N)
        +1 for open convex units, -1 for open concave ones, 0 for decided ones.
    sign : ndarray, shape (B, N)
        s of stable units that may help to bound others, else 0.
    size : ndarray, shape (B, N)
        Width of the pre-activations' ranges.
    low, high : ndarray, shape (B, d)
        Input boxes.
    """

    chord: FloatArray
    offset: FloatArray
    bend: FloatArray
    sign: FloatArray
    size: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True)
class Gathered:
    """A relaxation's arrays, one column a bound, and the bounds' own terms in each layer.

    What of a coefficient lies below `least`, or above `most`, meets the line through zero; without
    concave units there is no `most`.  Boxes that are the same everywhere have a single column.
    """

    chord: RealArray
    offset: RealArray
    sign: RealArray
    least: RealArray
    most: RealArray | None
    middle: RealArray
    radius: RealArray
    seeds: list[RealArray | None]

    def beyond(self, coefficients: RealArray, span: slice) -> RealArray:
        """What of the coefficients (n, R) of a layer does not meet the line through zero."""
        found: RealArray = np.maximum(coefficients, self.least[span])
        if self.most is not None:
            np.minimum(found, self.most[span], out=found)
        return found


class GatheredNodes:
    """A relaxation's arrays, one column a node, to be gathered for bounds.

    Parameters
    ----------
    relaxation : NodeTriangles
    spans : sequence of slice
        The units of each layer.
    dtype : type
    more : tuple of ndarray, shapes (B, n)
        What else is to be gathered.
    """

    def __init__(
        self, relaxation: NodeTriangles, spans: Sequence[slice], dtype: type, *more: RealArray
    ) -> None:
        r, self._spans, self._dtype = relaxation, spans, dtype
        ends = [0.5 * (r.low + r.high), 0.5 * (r.high - r.low)]
        self._ends: list[RealArray] = []
        if all((end == end[:1]).all() for end in ends):
            self._ends, ends = [end[0, :, None].astype(dtype) for end in ends], []
        self._concave = bool((r.bend < 0).any())
        parts: list[RealArray] = [r.chord, r.offset, r.sign, np.where(r.bend > 0, 0.0, -np.inf)]
        if self._concave:
            parts.append(np.where(r.bend < 0, 0.0, np.inf))
        parts += [*ends, *more]
        every: RealArray = np.concatenate(parts, axis=1, dtype=dtype, casting="same_kind")
        self._every = np.ascontiguousarray(every.T)  # passes go over layers
        self._stops = np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()

    def gather(self, rows: WantedBounds) -> tuple[Gathered, list[RealArray]]:
        """The arrays of the bounds' nodes, and what else was to be gathered."""
        node = rows.node
        if not node.size or (node[1:] < node[:-1]).any():
            every = np.take(self._every, node, axis=1)
        else:
            few = self._every[:, node[0] : node[-1] + 1]
            every = np.repeat(few, np.bincount(node - node[0]), axis=1)
        found = iter(every[a:b] for a, b in pairwise(self._stops))
        chord, offset, sign, least = (next(found) for _ in range(4))
        most = next(found) if self._concave else None
        middle, radius = self._ends or (next(found), next(found))
        seeds = self._seeds(rows, len(chord))
        data = Gathered(chord, offset, sign, least, most, middle, radius, seeds)
        return data, list(found)

    def _seeds(self, rows: WantedBounds, units: int) -> list[RealArray | None]:
        """The bounds' own terms in each layer, None where there are none."""
        every: RealArray = np.zeros((units, rows.count), dtype=self._dtype)
        every[rows.unit, np.arange(rows.count)] = rows.sign
        counts = np.bincount(rows.unit, minlength=units)
        return [every[span] if counts[span].any() else None for span in self._spans]
