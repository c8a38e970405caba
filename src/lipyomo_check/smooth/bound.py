"""Bounds of a directional derivative over many boxes at once, with every rounding error counted.

For a functional w of the outputs, boxes ``low <= x <= high`` and directions in a box of their own
this bounds ``w . J(x) v`` from above.  A layer's pre-activations z and tangents u = z' along v have
affine lower and upper functions of (x, v), found by going backwards through the layers before it:

    sigma(z)    in   s z + [lo, hi]                                    (`lines`, for A = 1, c = 0)
    sigma'(z) u  =   d u + m (sigma'(z) - d) + (sigma'(z) - d)(u - m)

with d and m in the middle of the ranges of sigma' and u; sigma'(z) has lines as well, and the last
product is at most the product of the two radii.

The objective goes backwards as a whole.  Of a unit with coefficients A of sigma(z) and B of
sigma'(z) u it needs a plane: for any s and r,

    A sigma(z) + B sigma'(z) u <= s z + B r u + most,
    most = max over both ends e of u's range of (sup (A sigma + B e sigma' - s z) - B e r),

since the left-hand side is affine in u.  s is the chord's slope for u = m, and r such that both
ends give the same, within the range of sigma' (in earlier formats d, and nothing below).

A box may come with a half-space outside of which nothing counts: where its parent's function is at
most the upper end.  Ranges of pre-activations are those over both together (`halfspaces.narrowed`).

Rounding.  Coefficients of an affine function may be any numbers, if what their rounding changes
is added: where they multiply a unit's z (or u), whose terms have absolute values that add up to at
most G, a coefficient P that errs by ``e |P|`` adds ``e |P| G``.  Every computed number is a sum of
products, in any order, over at most n terms a layer; so with n the largest width and L layers, each
term errs relatively by less than

    gamma = (n + 16) (L + 2) 2^-51,

and a row errs by at most gamma times the sum of the absolute values of all its terms, its *mass*.
What underflows is less than 1e-290 in all: weights whose products of norms exceed 1e60 are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import MOST_NUMBERS
from lipyomo_check.smooth.boxes import Ball, Boxes, Ends, Rows, middles
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Scope
from lipyomo_check.smooth.halfspaces import (
    UNDERFLOW,
    Above,
    HalfSpaces,
    Multiple,
    confined,
    inherited,
    narrowed,
    with_multiples,
)
from lipyomo_check.smooth.layers import Mode, Planes, Relaxed
from lipyomo_check.smooth.levels import Level
from lipyomo_check.statement import TOGETHER, Domain

MOST_GROWTH = 1e60
"""Of the product of all layers' norms (with biases and slopes)."""


@dataclass(frozen=True, eq=False)
class Bounded:
    """What is known of N boxes.

    Attributes
    ----------
    upper : ndarray, shape (N,)
        ``w . J(x) v`` is at most this (minus infinity where there is no point).
    x, v : ndarray, shapes (N, d) and (N, k)
        Coefficients of an affine upper function, whose maximum on the box `upper` is (or less).
    multiples : tuple of Multiple
        What it has of each half-space.
    planes : tuple of Planes
        Above what the units of each layer add to the objective.
    layers : tuple of Relaxed
    rows : tuple of (Rows, Rows)
        Of each layer's pre-activations and tangents.
    """

    upper: Array
    x: Array
    v: Array
    multiples: tuple[Multiple, ...]
    planes: tuple[Planes, ...]
    layers: tuple[Relaxed, ...]
    rows: tuple[tuple[Rows, Rows], ...]

    def part(self, which: slice) -> Bounded:
        """What is known of some of them, without their layers and rows."""
        multiples = tuple(one.part(which) for one in self.multiples)
        planes = tuple(Planes(*(side[which] for side in one)) for one in self.planes)
        return Bounded(self.upper[which], self.x[which], self.v[which], multiples, planes, (), ())


class Collapsed(NamedTuple):
    """Affine functions above the objective on N boxes, their maxima, and what they are made of."""

    upper: Array
    x: Array
    v: Array
    planes: tuple[Planes, ...]

    def least(self, other: Collapsed) -> Collapsed:
        """Of each box the function whose maximum is less."""
        less = self.upper <= other.upper
        pairs = zip(self.planes, other.planes, strict=True)
        return Collapsed(
            np.where(less, self.upper, other.upper),
            np.where(less[:, None], self.x, other.x),
            np.where(less[:, None], self.v, other.v),
            tuple(one.where(less, two) for one, two in pairs),
        )


class Chain:
    """A network's hidden layers, ready to be bounded.

    Parameters
    ----------
    levels : sequence of Level
    head : ndarray, shape (m, n)
        Weight of the last layer.
    largest : float
        Of any |x|.
    domain : Domain, optional
        Whose half-spaces count, as well as the boxes.
    euclidean : bool, optional
        Whether Jacobians are to be enclosed (`euclid`).
    plain : bool, optional
        Whether bounds are those of earlier formats.
    offset : ndarray, shape (m,), optional
        Bias of the last layer, if values are to be bounded, and no derivatives.

    Attributes
    ----------
    broken : tuple of (int, int)
        Layer and unit of all units with breaks, in the order of a box's phases.
    multiplies : bool
        Whether it has products.
    grows : bool
        Whether ranges have to show that numbers are not too large: it has products, or units whose
        slopes have no bounds.
    most : int
        Boxes that are bounded together.

    Raises
    ------
    ProofError
        If its numbers are too large for this arithmetic.
    """

    def __init__(
        self,
        levels: Sequence[Level],
        head: Array,
        largest: float,
        domain: Domain | None = None,
        euclidean: bool = False,
        plain: bool = False,
        offset: Array | None = None,
    ) -> None:
        self.levels, self.head, self.offset = tuple(levels), head, offset
        self.domain, self.euclidean, self.plain = domain, euclidean, plain
        self.broken = tuple(
            (i, int(k))
            for i, level in enumerate(levels)
            for group in level.groups
            if group.kind.breaks
            for k in group.units
        )
        of_layer = [
            [n for n, (i, _) in enumerate(self.broken) if i == j] for j in range(len(levels))
        ]
        self._places = [np.array(places, dtype=np.int64) for places in of_layer]
        self._units = [np.array([self.broken[n][1] for n in p], dtype=np.int64) for p in of_layer]
        self.multiplies = any(level.products is not None for level in levels)
        self._grows = [
            level.products is not None or any(group.kind.inside for group in level.groups)
            for level in levels
        ]
        widths = [level.branch_weight.shape for level in levels]
        if levels and levels[0].tangents is not levels[0].weight:
            widths.append(levels[0].tangents.shape)
        widest = max(max(max(shape) for shape in widths), *head.shape)
        self.gamma = (widest + 16) * (len(levels) + 2) * 2.0**-51
        growth = 1.0 + largest
        for level in levels:
            steepest = max([1.0, *(sum(group.kind.scale) for group in level.groups)])
            sums = [sizes.sum(axis=1) for sizes in (level.sizes, level.tangent_sizes)]
            size = float(np.maximum(*sums).max(initial=0.0))
            growth *= steepest * (1.0 + size + float(np.abs(level.bias).max(initial=0.0)))
        growth *= 1.0 + float(np.abs(head).sum())
        growth += 0.0 if offset is None else float(np.abs(offset).sum())
        if not growth < MOST_GROWTH:
            raise ProofError("the network's numbers are too large for a proof in float64")
        self._growth = growth
        self.grows = any(self._grows)
        # rows of boxes: the largest width times the most inputs of a layer
        cells = widest * max((k for _, k in widths), default=1)
        self.most = max(1, min(TOGETHER, MOST_NUMBERS // cells))

    @np.errstate(
        over="ignore", invalid="ignore", divide="ignore"
    )  # such boxes have no finite bound
    def bound(self, functionals: Array, boxes: Boxes, spaces: Sequence[HalfSpaces] = ()) -> Bounded:
        """Bound ``w . J(x) v`` on boxes, w being the row of `functionals`, (N, m), of each.

        Only points of further half-spaces count, if some are given.
        """
        x, v = middles(boxes.low, boxes.high), middles(boxes.v_low, boxes.v_high)
        space = inherited(boxes.rise, boxes.least, *x)
        layers: list[Relaxed] = []
        rows: list[tuple[Rows, Rows]] = []
        scope = Scope(x[1], v[1], self.gamma)
        h, t = x, v
        for i, level in enumerate(self.levels):
            z, u = self._values(level, h), self._tangents(level, t)
            if i:
                of_z, of_u = self._back(layers, x, v, False), self._back(layers, x, v, True)
                u = _both((of_u.low, of_u.high), u)
            else:
                of_z, of_u = _first_rows(level, z, u)
            own = narrowed(of_z.x, (of_z.low, of_z.high), space, x[1])
            z = self._in_phase(i, _both(z, own), boxes)
            sizes = _terms(level.sizes, h) + np.abs(level.bias), _terms(level.tangent_sizes, t)
            inner = i + 1 < len(self.levels) or self.euclidean
            mode = Mode(inner, self.plain, self.grows and inner)
            layers.append(Relaxed.of(level, z, u, sizes, (of_z, of_u), scope, mode))
            rows.append((of_z, of_u))
            if inner:
                h, t = layers[-1].outputs(level), layers[-1].tangents(level)
        return self._objective(functionals, layers, rows, x, v, boxes, spaces)

    def _in_phase(self, i: int, z: Ends, boxes: Boxes) -> Ends:
        """Bounds of a layer's pre-activations within the phases; in wrong order if none is left."""
        if not self._places[i].size:
            return z
        low, high = z[0].copy(), z[1].copy()
        at, units = self._places[i], self._units[i]
        low[:, units] = np.maximum(low[:, units], boxes.z_low[:, at])
        high[:, units] = np.minimum(high[:, units], boxes.z_high[:, at])
        return low, high

    def _values(self, level: Level, h: Ball) -> Ends:
        """Interval bounds of a layer's pre-activations, from those of the signal before it."""
        return self._natural(level.weight, level.sizes, h, level.bias)

    def _tangents(self, level: Level, t: Ball) -> Ends:
        """The same of their tangents."""
        return self._natural(level.tangents, level.tangent_sizes, t, np.zeros(1))

    def _natural(self, weight: Array, sizes: Array, signal: Ball, bias: Array) -> Ends:
        """Interval bounds of ``W h + b`` for h in ``centre +- reach``."""
        centre, reach = signal
        middle, radius = centre @ weight.T + bias, reach @ sizes.T
        mass = np.abs(centre) @ sizes.T + radius + np.abs(bias)
        radius = radius + (self.gamma * mass + UNDERFLOW)
        return middle - radius, middle + radius

    def _back(self, layers: list[Relaxed], x: Ball, v: Ball, tangents: bool) -> Rows:
        """Pre-activations (or tangents) of the layer behind some, as affine functions of (x, v)."""
        level = self.levels[len(layers)]
        A, B = (None, level.weight) if tangents else (level.weight, None)
        constant = np.zeros((len(x[0]), len(level.weight))) + (0.0 if tangents else level.bias)
        radius = np.zeros_like(constant)
        mass = np.abs(constant)
        before = self.levels[: len(layers)]
        for layer, level in zip(reversed(layers), reversed(before), strict=True):
            P: Array | None = None
            if A is not None:
                s, middle, reach = layer.line
                P = level.spread(A) * s[:, None, :]
                constant = constant + _times(A, middle)
                weight = np.abs(middle) + level.outputs_of(np.abs(s) * level.own(layer.size))
                added = _times2(np.abs(A), reach, weight)
                radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
            if B is not None:
                assert layer.change is not None
                tilt, middle, reach, weight = layer.change
                constant = constant + _times(B, middle)
                added = _times2(np.abs(B), reach, weight)
                radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
                B = level.spread(B)
                P = B * tilt[:, None, :] if P is None else P + B * tilt[:, None, :]
                B = (B * layer.d[:, None, :]) @ level.branch_tangents
            assert P is not None
            constant = constant + P @ level.branch_bias
            A = P @ level.branch_weight
        assert A is not None
        centre = _times(A, x[0])
        width = _times(np.abs(A), x[1])
        mass = mass + _times(np.abs(A), np.abs(x[0])) + width
        if B is not None:
            centre = centre + _times(B, v[0])
            more = _times(np.abs(B), v[1])
            width, mass = width + more, mass + _times(np.abs(B), np.abs(v[0])) + more
        middle, reach = constant + centre, radius + width
        reach = reach + (self.gamma * mass + UNDERFLOW)
        return Rows(A, B, middle - reach, middle + reach)

    def _objective(
        self,
        functionals: Array,
        layers: list[Relaxed],
        rows: list[tuple[Rows, Rows]],
        x: Ball,
        v: Ball,
        boxes: Boxes,
        spaces: Sequence[HalfSpaces],
    ) -> Bounded:
        """Go backwards with ``w . W_last`` as a whole."""
        found = self._collapsed(functionals, layers, x, v, None)
        if self.multiplies:  # planes that are low at one point are better on narrow boxes
            worst = tuple(
                middle + np.sign(row) * reach
                for row, (middle, reach) in ((found.x, x), (found.v, v))
            )
            there = [
                _at(pair, layer, x, v, worst) for pair, layer in zip(rows, layers, strict=True)
            ]
            found = found.least(self._collapsed(functionals, layers, x, v, there))
        upper = self._within_reach(found.upper, layers)
        above = self._by_phases(Above(upper, found.x), rows, x[1], boxes)
        if self.domain is not None:
            above = confined(self.domain, above, *x)
        for further in spaces:
            above = with_multiples(above, further, x[1])
        upper = above.upper
        for layer in layers:
            upper = np.where((layer.low > layer.high).any(axis=1), -np.inf, upper)
        upper = self._within_reach(upper, layers)
        return Bounded(
            upper, above.x, found.v, above.multiples, found.planes, tuple(layers), tuple(rows)
        )

    def _collapsed(
        self,
        functionals: Array,
        layers: list[Relaxed],
        x: Ball,
        v: Ball,
        there: list[tuple[Array, Array]] | None,
    ) -> Collapsed:
        """The objective as an affine function over the whole boxes.

        Where `there` are z and u of each layer, planes above products are low at that point.
        """
        count = len(x[0])
        A, B = np.zeros((2, count, self.head.shape[1]))
        constant, mass = np.zeros(count), np.zeros(count)
        if self.offset is not None:
            A = functionals @ self.head
            constant, mass = functionals @ self.offset, np.abs(functionals) @ np.abs(self.offset)
            middle, reach = layers[-1].outputs(self.levels[-1]) if layers else x
            outer = np.abs(middle) + reach
        else:
            B = functionals @ self.head
            outer = np.abs(v[0]) + v[1]
            if layers:
                level, top = self.levels[-1], layers[-1]
                outer = (np.abs(top.d) + top.d_reach) * level.own(top.tangent_size)
                outer = level.outputs_of(outer)
        # the first product rounds
        mass = mass + (np.abs(functionals) @ np.abs(self.head) * outer).sum(axis=1)
        found: list[Planes] = []
        for i in range(len(layers) - 1, -1, -1):
            layer, level = layers[i], self.levels[i]
            planes = layer.planes(level, A, B, self.plain, None if there is None else there[i])
            constant = constant + planes.most.sum(axis=1)
            constant = constant + (planes.s * level.branch_bias).sum(axis=1)
            B = planes.rates
            sizes = np.abs(B) * level.own(layer.tangent_size)
            mass = mass + planes.size.sum(axis=1) + sizes.sum(axis=1)
            A, B = planes.s @ level.branch_weight, B @ level.branch_tangents
            found.append(planes)
        upper = constant
        for row, (middle, reach) in ((A, x), (B, v)):
            upper = upper + (row * middle).sum(axis=1) + (np.abs(row) * reach).sum(axis=1)
            mass = mass + (np.abs(row) * (np.abs(middle) + reach)).sum(axis=1)
        upper = upper + (self.gamma * mass + UNDERFLOW)
        return Collapsed(np.where(np.isnan(upper), np.inf, upper), A, B, tuple(reversed(found)))

    def _within_reach(self, upper: Array, layers: list[Relaxed]) -> Array:
        """Bounds, infinite where products or units without bounds make numbers too large.

        Nor is there a bound where a unit may not be smooth: its slopes are not finite then.
        """
        if not self.grows:
            return upper
        growth = np.full(len(upper), self._growth)
        for layer, grows in zip(layers, self._grows, strict=True):
            parts = [layer.low, layer.high, layer.m, layer.m_reach, layer.d, layer.d_reach]
            parts += [layer.line[0], layer.line[1]]
            if layer.change is not None:
                parts += [layer.change.tilt, layer.change.middle]
            if grows:
                largest = np.max([np.abs(part).max(axis=1, initial=0.0) for part in parts], axis=0)
                growth = growth * (2.0 + largest) ** 2
            else:
                finite = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
                growth = np.where(finite, growth, np.inf)
        return np.where(growth < MOST_GROWTH, upper, np.inf)

    def _by_phases(
        self,
        found: Above,
        rows: list[tuple[Rows, Rows]],
        reach: Array,
        boxes: Boxes,
    ) -> Above:
        """The same upper functions with multiples of those of phases that cut through the boxes.

        In a phase ``z <= t`` of a unit with an affine lower function ``a . x + g`` the sum
        ``t - a . x - g`` is not negative, and any multiple may be added; ``z >= t`` likewise.
        """
        for n, (i, k) in enumerate(self.broken):
            z = rows[i][0]
            for side, sign in ((boxes.z_high[:, n], -1.0), (boxes.z_low[:, n], 1.0)):
                low, high = z.low[:, k], z.high[:, k]
                active = np.flatnonzero(np.isfinite(side) & (low < side) & (side < high))
                if not active.size:
                    found = found.without()
                    continue
                a = sign * z.x[active, k]
                span = (np.abs(a) * reach[active]).sum(axis=1)
                outer, inner = (high if sign > 0 else -low)[active], sign * side[active]
                level = outer - inner - span
                size = np.abs(outer) + np.abs(inner) + span
                found = with_multiples(found, HalfSpaces(active, a, level, size), reach)
        return found


def _at(
    rows: tuple[Rows, Rows], layer: Relaxed, x: Ball, v: Ball, point: tuple[Array, ...]
) -> tuple[Array, Array]:
    """Pre-activations and tangents of a layer at a point, about, within their ranges."""
    (of_z, of_u), found = rows, []
    ends = layer.low, np.maximum(layer.low, layer.high)
    own = layer.m - layer.m_reach, layer.m + layer.m_reach
    for row, (low, high) in ((of_z, ends), (of_u, own)):
        value = row.low / 2.0 + row.high / 2.0 + _times(row.x, point[0] - x[0])
        if row.v is not None:
            value = value + _times(row.v, point[1] - v[0])
        found.append(np.minimum(np.maximum(value, low), high))
    return found[0], found[1]


def _times(rows: Array, values: Array) -> Array:
    """Rows (N, k, n) or (k, n) times a vector a box, (N, n)."""
    if rows.ndim == 2:
        return values @ rows.T
    return np.asarray(np.matmul(rows, values[..., None])[..., 0])


def _times2(rows: Array, first: Array, second: Array) -> Array:
    """The same for two vectors, (N, k, 2)."""
    return np.asarray(np.matmul(rows, np.stack([first, second], axis=-1)))


def _both(one: Ends, other: Ends) -> Ends:
    """What two enclosures of the same number leave."""
    return np.maximum(one[0], other[0]), np.minimum(one[1], other[1])


def _terms(sizes: Array, signal: Ball) -> Array:
    """Sums of absolute values of the terms of ``W h``."""
    return np.asarray((np.abs(signal[0]) + signal[1]) @ sizes.T)


def _first_rows(level: Level, z: Ends, u: Ends) -> tuple[Rows, Rows]:
    """Pre-activations and tangents of the first layer as functions of (x, v)."""
    weight, along = (
        np.broadcast_to(rows, (len(z[0]), *rows.shape)) for rows in (level.weight, level.tangents)
    )
    return Rows(weight, None, *z), Rows(np.broadcast_to(0.0, weight.shape), along, *u)
