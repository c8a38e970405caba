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
ends give the same, within the range of sigma'.

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
from itertools import pairwise

import numpy as np

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import TOGETHER, Domain
from lipyomo_check.reading import MOST_NUMBERS
from lipyomo_check.smooth import squares
from lipyomo_check.smooth.backwards import back
from lipyomo_check.smooth.balls import alike, outwards
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Ball, Boxes, Ends, Rows, middles
from lipyomo_check.smooth.common import common_of
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Scope
from lipyomo_check.smooth.halfspaces import (
    UNDERFLOW,
    Above,
    HalfSpaces,
    by_phases,
    confined,
    inherited,
    narrowed,
    with_multiples,
)
from lipyomo_check.smooth.layers import Mode, Relaxed
from lipyomo_check.smooth.levels import Level
from lipyomo_check.smooth.objective import Objective
from lipyomo_check.smooth.planes import Planes
from lipyomo_check.smooth.two_lines import TwoLines, ends_by_lines
from lipyomo_check.smooth.whole import Sum, sums_of

MOST_GROWTH = 1e60
"""The largest product of all layers' norms (with biases and slopes)."""


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
    offset : ndarray, shape (m,), optional
        Bias of the last layer, if values are to be bounded, and no derivatives.
    two_lines : bool, optional
        Whether two-slope units have two lines (`two_lines`).

    Attributes
    ----------
    squares : list of tuple of Sum
        Rows of each layer that have least values as sums of squares of the layer before.
    broken : tuple of (int, int)
        Layer and unit of all units with breaks, in the order of a box's phases.
    grows : bool
        Whether ranges have to show that numbers are not too large: it has products, or units whose
        slopes have no bounds.
    by_lines : bool
        Whether pre-activations have ranges by two lines as well.
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
        offset: Array | None = None,
        two_lines: bool = True,
    ) -> None:
        self.levels, self.head, self.offset = tuple(levels), head, offset
        self.domain, self.euclidean, self.two_lines = domain, euclidean, two_lines
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
        self._grows = [
            level.products is not None or any(group.kind.inside for group in level.groups)
            for level in levels
        ]
        self._common = list(map(common_of, levels))
        self._sums: list[tuple[Sum, ...]] = [() for _ in levels]
        self.squares: list[tuple[Sum, ...]] = [() for _ in levels]
        for i, (level, after) in enumerate(pairwise(levels)):
            self._sums[i] = sums_of(level, after.weight)
            self.squares[i + 1] = squares.convex(self._sums[i], after.weight)
        widths = [level.branch_weight.shape for level in levels]
        if levels and levels[0].tangents is not levels[0].weight:
            widths.append(levels[0].tangents.shape)
        widest = max(*head.shape, *(n for shape in widths for n in shape))
        self.gamma = (widest + 16) * (len(levels) + 2) * 2.0**-51
        self.objective = Objective(self.levels, head, offset, self.gamma)
        self._growth = _growth_of(self.levels, head, largest, offset)
        self.grows = any(self._grows)
        kinked = any(group.kind.kinked for level in levels for group in level.groups)
        self.by_lines = two_lines and kinked and all(level.products is None for level in levels)
        # rows of boxes: the largest width times the most inputs of a layer
        cells = widest * max((k for _, k in widths), default=1)
        self.most = max(1, min(TOGETHER, MOST_NUMBERS // cells))

    @np.errstate(
        over="ignore", invalid="ignore", divide="ignore"
    )  # such boxes have no finite bound
    def bound(
        self,
        functionals: Array,
        boxes: Boxes,
        spaces: Sequence[HalfSpaces] = (),
        known: Bounded | None = None,
    ) -> Bounded:
        """Bound ``w . J(x) v`` on boxes, w being the row of `functionals`, (N, m), of each.

        Only points of further half-spaces count, if some are given.  Planes and multiples of
        half-spaces are chosen as in `known` bounds, which have shown that numbers are not too
        large.
        """
        x, v = middles(boxes.low, boxes.high), middles(boxes.v_low, boxes.v_high)
        space = inherited(boxes.rise, boxes.least, *x)
        layers: list[Relaxed] = []
        lines: list[TwoLines] = []
        rows: list[tuple[Rows, Rows]] = []
        scope = Scope(x[1], v[1], self.gamma)
        h, t = x, v
        for i, level in enumerate(self.levels):
            z, u = self._values(level, h), self._tangents(level, t)
            if i:
                of_z, of_u = (
                    back(self.levels, layers, x, v, tangents, self.gamma)
                    for tangents in (False, True)
                )
                u = _both((of_u.low, of_u.high), u)
            else:
                of_z, of_u = _first_rows(level, z, u)
            own = narrowed(of_z.x, (of_z.low, of_z.high), space, x[1])
            z = _both(z, own)
            if self.squares[i]:
                z = self._above_least(i, z, layers[-1])
            if i and self.by_lines:
                z = _both(z, ends_by_lines(self.levels, lines, x, self.gamma))
            z = self._in_phase(i, outwards(*z), boxes)
            sizes = _terms(level.sizes, h) + np.abs(level.bias), _terms(level.tangent_sizes, t)
            mode = self.mode(i)
            layers.append(Relaxed.of(level, z, u, sizes, (of_z, of_u), scope, mode))
            if self.by_lines:
                lines.append(TwoLines.of(layers[-1]))
            rows.append((of_z, of_u))
            if mode.inner:
                h, t = layers[-1].outputs(level), layers[-1].tangents(level)
        return self._bounded(functionals, layers, rows, x, v, boxes, spaces, known)

    def mode(self, i: int) -> Mode:
        """Return what is to be computed for a layer."""
        inner = i + 1 < len(self.levels) or self.euclidean
        narrow = self.grows and inner
        return Mode(inner, narrow, self.two_lines, self._common[i], self._sums[i])

    def _above_least(self, i: int, z: Ends, before: Relaxed) -> Ends:
        """Return bounds of pre-activations; those of sums of squares by their least values."""
        assert before.whole is not None
        low, level = z[0].copy(), self.levels[i]
        for own in self.squares[i]:
            found = squares.least(before.whole.z, own, level.weight, level.bias, self.gamma)
            low[:, own.row] = np.maximum(low[:, own.row], found)
        return low, z[1]

    def _in_phase(self, i: int, z: Ends, boxes: Boxes) -> Ends:
        """Return bounds of pre-activations within the phases; in wrong order if none is left."""
        if not self._places[i].size:
            return z
        low, high = z[0].copy(), z[1].copy()
        at, units = self._places[i], self._units[i]
        low[:, units] = np.maximum(low[:, units], boxes.z_low[:, at])
        high[:, units] = np.minimum(high[:, units], boxes.z_high[:, at])
        return low, high

    def _values(self, level: Level, h: Ball) -> Ends:
        """Return interval bounds of a layer's pre-activations from those of its inputs."""
        return self._natural(level.weight, level.sizes, h, level.bias)

    def _tangents(self, level: Level, t: Ball) -> Ends:
        """Do the same of their tangents."""
        return self._natural(level.tangents, level.tangent_sizes, t, np.zeros(1))

    def _natural(self, weight: Array, sizes: Array, signal: Ball, bias: Array) -> Ends:
        """Return interval bounds of ``W h + b`` for h in ``centre +- reach``."""
        centre, reach = signal
        middle, radius = centre @ weight.T + bias, reach @ sizes.T
        mass = np.abs(centre) @ sizes.T + radius + np.abs(bias)
        radius = radius + (self.gamma * mass + UNDERFLOW)
        return middle - radius, middle + radius

    def _bounded(
        self,
        functionals: Array,
        layers: list[Relaxed],
        rows: list[tuple[Rows, Rows]],
        x: Ball,
        v: Ball,
        boxes: Boxes,
        spaces: Sequence[HalfSpaces],
        known: Bounded | None,
    ) -> Bounded:
        """Go backwards with ``w . W_last`` as a whole."""
        chosen, given = None, None
        if known is not None:
            chosen = [Planes(*(alike(side, self.head) for side in own)) for own in known.planes]
            given = known.multiples
        found = self.objective.above(functionals, layers, rows, x, v, chosen)
        upper = found.upper
        if known is None:
            upper = _within_reach(upper, layers, self._grows, self._growth)
        above = by_phases(self.broken, Above(upper, found.x, given=given), rows, x[1], boxes)
        if self.domain is not None:
            above = confined(self.domain, above, *x)
        for further in spaces:
            above = with_multiples(above, further, x[1])
        upper = above.upper
        for layer in layers:
            upper = np.where((layer.low > layer.high).any(axis=1), -np.inf, upper)
        if known is None:
            upper = _within_reach(upper, layers, self._grows, self._growth)
        return Bounded(
            upper, above.x, found.v, above.multiples, found.planes, tuple(layers), tuple(rows)
        )


def _both(one: Ends, other: Ends) -> Ends:
    """Return the intersection of two enclosures."""
    return np.maximum(one[0], other[0]), np.minimum(one[1], other[1])


def _terms(sizes: Array, signal: Ball) -> Array:
    """Return sums of absolute values of the terms of ``W h``."""
    terms: Array = (np.abs(signal[0]) + signal[1]) @ sizes.T
    return terms


def _first_rows(level: Level, z: Ends, u: Ends) -> tuple[Rows, Rows]:
    """Return pre-activations and tangents of the first layer as functions of (x, v)."""
    weight, along = (
        np.broadcast_to(rows, (len(z[0]), *rows.shape)) for rows in (level.weight, level.tangents)
    )
    return Rows(weight, None, *z), Rows(np.broadcast_to(0.0, weight.shape), along, *u)


def _growth_of(levels: Sequence[Level], head: Array, largest: float, offset: Array | None) -> float:
    """Return the product of all layers' norms, for inputs up to `largest` in size.

    Raises
    ------
    ProofError
        If it is too large.
    """
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
    return growth


def _within_reach(
    upper: Array, layers: Sequence[Relaxed], grows: Sequence[bool], growth: float
) -> Array:
    """Return bounds, infinite where products or units without bounds make numbers too large.

    Nor is there a bound where a unit may not be smooth: its slopes are not finite then.
    """
    if not any(grows):
        return upper
    size = np.full(len(upper), growth)
    for layer, unbounded in zip(layers, grows, strict=True):
        parts = [layer.low, layer.high, layer.m, layer.m_reach, layer.d, layer.d_reach]
        parts += [layer.line[0], layer.line[1]]
        if layer.change is not None:
            parts += [layer.change.tilt, layer.change.middle]
        if unbounded:
            largest = np.max([np.abs(part).max(axis=1, initial=0.0) for part in parts], axis=0)
            size = size * (2.0 + largest) ** 2
        else:
            finite = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
            size = np.where(finite, size, np.inf)
    return np.where(size < MOST_GROWTH, upper, np.inf)
