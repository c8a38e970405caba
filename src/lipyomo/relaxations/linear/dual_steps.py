"""Steps of dual ascent in single precision: AdaGrad with momentum on dual multipliers.

The bound and its derivatives are those of `lipyomo.relaxations.linear.dual_ascent`.  Nothing here
has to be exact: the steps only choose multipliers, and any multipliers give a valid bound.  The
first classes collect the data: which bounds are wanted, and the relaxations of their nodes, one
column for each bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.problems.domains.base import RoundPart
from lipyomo.relaxations.linear.params import PARAMS

RealArray = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class WantedBounds:
    """The bounds to compute: upper bounds of ``sign * z_unit`` on a node.

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


class NodeTriangles(NamedTuple):
    """The triangle relaxations of a batch of B nodes.

    Attributes
    ----------
    chord, offset : ndarray, shape (B, N)
        Slopes c and offsets o of the chords; of stable units their slopes, and zero.
    bend : ndarray, shape (B, N)
        +1 for open convex units, -1 for open concave ones, 0 for decided ones.
    sign : ndarray, shape (B, N)
        s of stable units whose constraint ``s z >= 0`` may tighten other bounds, else 0.
    size : ndarray, shape (B, N)
        Widths of the ranges of the pre-activations.
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


class Gathered(NamedTuple):
    """The arrays of a relaxation, one column for each bound, as the sweeps use them.

    A coefficient of a unit's output is clipped to ``[least, most]``.  The clipped part is bounded
    by the chord, the remainder by the line through zero.  `most` is None without concave units.
    `middle` and `radius` describe the boxes; they have a single column if all boxes are equal.
    `seeds` holds each layer's own terms of the bounds: `sign` at `unit`, None for a zero layer.
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
        """Return the part of a layer's coefficients (n, R) that is bounded by the chords."""
        found: RealArray = np.maximum(coefficients, self.least[span])
        if self.most is not None:
            np.minimum(found, self.most[span], out=found)
        return found


class GatheredNodes:
    """The arrays of a relaxation, one column for each node, to be repeated for its bounds.

    Parameters
    ----------
    relaxation : NodeTriangles
    spans : sequence of slice
        The units of each layer.
    dtype : type
    more : tuple of ndarray, shapes (B, n)
        Further arrays to gather.
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
        self._every = np.ascontiguousarray(every.T)  # sweeps take the rows of one layer at a time
        self._stops = np.cumsum([0, *(part.shape[1] for part in parts)]).tolist()

    def gather(self, rows: WantedBounds) -> tuple[Gathered, list[RealArray]]:
        """Return the arrays of each bound's node, and the further arrays likewise."""
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
        """Return the terms ``sign`` of the bounded units by layer, None where there are none."""
        every: RealArray = np.zeros((units, rows.count), dtype=self._dtype)
        every[rows.unit, np.arange(rows.count)] = rows.sign
        counts = np.bincount(rows.unit, minlength=units)
        return [every[span] if counts[span].any() else None for span in self._spans]


SingleArray = npt.NDArray[np.float32]

_TINY = np.finfo(np.float32).tiny

_SIGN_BIT = np.int32(-(2**31))


class _LayerColumns(NamedTuple):
    """One layer in a sweep: views of the arrays of the ascent, and buffers.

    Attributes
    ----------
    map, transposed : ndarray or sparse array
        Weights and biases, for the forward and the backward sweep.
    multipliers, slopes : ndarray, shape (n, R)
        Current multipliers, and a buffer for the derivatives of the bounds with respect to them.
    sign, chord, offset, least, most, seed : ndarray, shape (n, R)
        Of `Gathered`.
    signal : ndarray, shape (n_before + 1, R)
        Buffer for the layer's inputs; its last row, multiplied by the biases, is one.
    """

    map: Any
    transposed: Any
    multipliers: SingleArray
    slopes: SingleArray
    sign: SingleArray
    chord: SingleArray
    offset: SingleArray
    least: SingleArray
    most: SingleArray | None
    seed: SingleArray | None
    signal: SingleArray


@dataclass(frozen=True, eq=False)
class DualSteps:
    """Dual ascent on a network and a domain, both in single precision.

    Attributes
    ----------
    maps : list of ndarray or sparse array, shapes (n_i, n_before + 1)
        Weights, with the biases as last column.
    spans : list of slice
        The units of each layer.
    facets, limits : ndarray, shapes (r, d) and (r,)
        Rows of the domain.
    ball : RoundPart, optional
        Of the domain.
    """

    maps: Sequence[Any]
    spans: Sequence[slice]
    facets: SingleArray
    limits: SingleArray
    ball: RoundPart | None

    def ascended(
        self,
        data: Gathered,
        current: SingleArray,
        limits: tuple[SingleArray, SingleArray, SingleArray],
        steps: int,
    ) -> SingleArray:
        """Return the multipliers of each column after `steps` steps (AdaGrad; Duchi et al., 2011).

        The ascent starts at `current` and overwrites it.  Columns whose bounds have not improved at
        the end keep their first multipliers.  Step lengths decrease to zero, as the bounds would
        oscillate otherwise.
        """
        least, most, scale = limits
        start = current.copy()
        before: SingleArray | None = None
        total, squares = np.zeros_like(current), np.full_like(current, _TINY)
        size, slopes = np.empty_like(current), np.empty_like(current)
        layers = self._layers(data, current, slopes)
        gamma, faces = (part[self.spans[-1].stop :] for part in (current, slopes))
        for turn in range(steps):
            values, point, lines = self._down(data, layers, gamma, valued=turn == 0)
            before = before if values is None else values
            _up(layers, lines, point)
            if self.limits.size:
                np.subtract(self.limits[:, None], self.facets @ point, out=faces)
            np.square(slopes, out=size)
            squares += size
            np.sqrt(squares, out=size)
            total *= np.float32(PARAMS.momentum)
            total += slopes
            np.divide(total, size, out=size)
            size *= scale
            size *= np.float32(1.0 - (turn / steps) ** 2)
            current -= size
            np.maximum(current, least, out=current)
            np.minimum(current, most, out=current)
        after, _, _ = self._down(data, layers, gamma, valued=True)
        if before is not None:
            assert after is not None
            worse = np.flatnonzero(~(after < before))  # NaN counts as worse
            current[:, worse] = start[:, worse]
        return current

    def _layers(
        self, data: Gathered, current: SingleArray, slopes: SingleArray
    ) -> list[_LayerColumns]:
        """Return views and buffers for the sweeps, layer by layer."""
        return [
            _LayerColumns(
                map=both,
                transposed=both.T,
                multipliers=current[span],
                slopes=slopes[span],
                sign=data.sign[span],
                chord=data.chord[span],
                offset=data.offset[span],
                least=data.least[span],
                most=None if data.most is None else data.most[span],
                seed=seed,
                signal=np.ones((both.shape[1], current.shape[1]), dtype=np.float32),
            )
            for both, span, seed in zip(self.maps, self.spans, data.seeds, strict=True)
        ]

    def _down(
        self, data: Gathered, layers: Sequence[_LayerColumns], gamma: SingleArray, valued: bool
    ) -> tuple[SingleArray | None, SingleArray, list[SingleArray | None]]:
        """Substitute back from the last layer to the inputs.

        Returned are the bounds (R,) if `valued`, the points (d, R) where they are attained, and for
        each layer the coefficients that are bounded by lines through zero.  The factors of the
        multipliers, ``lambda + s`` in the notation of `dual_ascent`, are left in `slopes`.
        """
        lines: list[SingleArray | None] = [None] * len(layers)
        constant: Any = np.float32(0.0)
        coefficients: SingleArray | None = None
        for i in range(len(layers) - 1, -1, -1):
            layer = layers[i]
            if coefficients is None:
                np.copyto(layer.slopes, layer.sign)
                total = layer.multipliers * layer.slopes
            else:
                line = lines[i] = coefficients
                coefficients = np.maximum(line, layer.least)
                if layer.most is not None:
                    np.minimum(coefficients, layer.most, out=coefficients)
                line -= coefficients
                total = layer.multipliers * np.add(layer.sign, line, out=layer.slopes)
                if valued:
                    constant = constant + np.einsum("nr,nr->r", coefficients, layer.offset)
                coefficients *= layer.chord
                total += coefficients
            if layer.seed is not None:
                total += layer.seed
            below = layer.transposed @ total
            coefficients = below[:-1]
            if valued:
                constant = constant + below[-1]
        assert coefficients is not None
        if self.limits.size:
            if valued:
                constant = constant + self.limits @ gamma
            coefficients -= self.facets.T @ gamma
        support, point = self._support(coefficients, data, valued)
        return None if support is None else constant + support, point, lines

    def _support(
        self, coefficients: SingleArray, data: Gathered, valued: bool
    ) -> tuple[SingleArray | None, SingleArray]:
        """Maximise linear functions (d, R) over their nodes: values (R,) and maximisers (d, R).

        The values are None unless `valued`.
        """
        point = data.middle + _with_signs(data.radius, coefficients)
        ball = self.ball
        if ball is None and not valued:
            return None, point
        values = np.einsum("nr,nr->r", coefficients, point)
        if ball is not None:
            at = ball.point.astype(np.float32)
            if ball.norm == "l2":
                size = np.sqrt(np.square(coefficients).sum(axis=0))
                out = coefficients / np.maximum(size, 1e-30)
            else:
                largest = np.abs(coefficients).argmax(axis=0)
                index = np.arange(len(largest))
                out = np.zeros_like(coefficients)
                out[largest, index] = np.sign(coefficients[largest, index])
                size = np.abs(coefficients[largest, index])
            in_ball = at @ coefficients + np.float32(ball.radius) * size
            inner = in_ball < values
            values = np.where(inner, in_ball, values)
            point = np.where(inner, at[:, None] + np.float32(ball.radius) * out, point)
        return (values if valued else None), point


def _up(
    layers: Sequence[_LayerColumns], lines: Sequence[SingleArray | None], point: SingleArray
) -> None:
    """Propagate points (d, R) forward and multiply `slopes` by their pre-activations.

    Each unit follows the chord or the line through zero that its coefficient is bounded by.
    """
    passed = layers[0].signal[:-1]
    passed[:] = point
    for i, (layer, line) in enumerate(zip(layers, lines, strict=True)):
        z = layer.map @ layer.signal
        np.multiply(layer.slopes, z, out=layer.slopes)
        if line is None:  # the last layer
            return
        passed = layers[i + 1].signal[:-1]
        np.multiply(layer.chord, z, out=passed)
        passed += layer.offset
        z *= layer.multipliers
        z -= passed
        z *= (line != 0).astype(np.float32)  # masks of bits cost as much, booleans twice
        passed += z


def _with_signs(sizes: SingleArray, signed: SingleArray) -> SingleArray:
    """Return ``copysign(sizes, signed)`` for sizes >= 0, ten times as fast as NumPy's."""
    bits = signed.view(np.int32) & _SIGN_BIT
    bits |= sizes.view(np.int32)
    return bits.view(np.float32)
