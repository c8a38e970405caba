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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import MOST_NUMBERS
from lipyomo_check.smooth.elementary import Array
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
from lipyomo_check.smooth.kinds import Kind
from lipyomo_check.smooth.lines import Samples
from lipyomo_check.statement import TOGETHER, Domain

MOST_GROWTH = 1e60
"""Of the product of all layers' norms (with biases and slopes)."""


class Group(NamedTuple):
    """Units of one kind in a layer."""

    units: npt.NDArray[np.int64]
    kind: Kind


class Level(NamedTuple):
    """A hidden layer as this needs it.

    Its pre-activations have the weight `weight`; their derivatives have `tangents`, which is the
    same except in the first layer, where directions are given.  The sizes are absolute values.
    """

    weight: Array
    sizes: Array
    bias: Array
    groups: tuple[Group, ...]
    tangents: Array
    tangent_sizes: Array


class Boxes(NamedTuple):
    """Boxes of points, shape (N, d), and directions, shape (N, k), and phases, shape (N, K).

    The points of a box are those at which the pre-activation of each of the chain's units with
    breaks lies in [z_low, z_high].  Of these, such as have ``rise . x < least`` do not count; rise
    has the shape (N, d), least (N,).
    """

    low: Array
    high: Array
    v_low: Array
    v_high: Array
    z_low: Array
    z_high: Array
    rise: Array
    least: Array

    @classmethod
    def whole(
        cls, low: Array, high: Array, v_low: Array, v_high: Array, z_low: Array, z_high: Array
    ) -> Boxes:
        """Boxes all of whose points count."""
        return cls(low, high, v_low, v_high, z_low, z_high, 0.0 * low, np.full(len(low), -np.inf))


class Relaxed(NamedTuple):
    """A layer's units over N boxes, arrays of shape (N, n).

    ``s z + [middle - reach, middle + reach]`` holds sigma(z), and with the second three sigma'(z)
    (in inner layers, and in the last one if Jacobians are enclosed);
    sigma'(z) lies in ``d +- d_reach``, u in ``m +- m_reach``.  `size` and `tangent_size` are at
    least the sums of absolute values of the terms that z and u are made of, `samples` the units'
    groups.
    """

    low: Array
    high: Array
    line: tuple[Array, Array, Array]
    slope_line: tuple[Array, Array, Array] | None
    d: Array
    d_reach: Array
    m: Array
    m_reach: Array
    size: Array
    tangent_size: Array
    samples: tuple[tuple[Group, Samples], ...]


class Rows(NamedTuple):
    """Affine functions of (x, v): coefficients (N, n, d) and (N, n, k), and bounds (N, n)."""

    x: Array
    v: Array | None
    low: Array
    high: Array


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
    planes : tuple of (ndarray, ndarray)
        s and r of the units of each layer, shape (N, n).
    layers : tuple of Relaxed
    rows : tuple of (Rows, Rows)
        Of each layer's pre-activations and tangents.
    gaps : tuple of (ndarray, ndarray)
        What each unit adds to the distance between the objective and its bound, on average: half
        of that between lines of ``A sigma + c sigma'``, and the product of radii.
    """

    upper: Array
    x: Array
    v: Array
    multiples: tuple[Multiple, ...]
    planes: tuple[tuple[Array, Array], ...]
    layers: tuple[Relaxed, ...]
    rows: tuple[tuple[Rows, Rows], ...]
    gaps: tuple[tuple[Array, Array], ...]


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

    Attributes
    ----------
    broken : tuple of (int, int)
        Layer and unit of all units with breaks, in the order of a box's phases.
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
    ) -> None:
        self.levels, self.head = tuple(levels), head
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
        widths = [level.weight.shape for level in levels]
        if levels and levels[0].tangents is not levels[0].weight:
            widths.append(levels[0].tangents.shape)
        widest = max(max(max(shape) for shape in widths), *head.shape)
        self.gamma = (widest + 16) * (len(levels) + 2) * 2.0**-51
        growth = 1.0 + largest
        for level in levels:
            steepest = max(1.0, *(sum(group.kind.scale) for group in level.groups))
            sums = [sizes.sum(axis=1) for sizes in (level.sizes, level.tangent_sizes)]
            size = float(np.maximum(*sums).max(initial=0.0))
            growth *= steepest * (1.0 + size + float(np.abs(level.bias).max(initial=0.0)))
        growth *= 1.0 + float(np.abs(head).sum())
        if not growth < MOST_GROWTH:
            raise ProofError("the network's numbers are too large for a proof in float64")
        # rows of boxes: the largest width times the most inputs of a layer
        cells = widest * max((k for _, k in widths), default=1)
        self.most = max(1, min(TOGETHER, MOST_NUMBERS // cells))

    def bound(self, functionals: Array, boxes: Boxes) -> Bounded:
        """Bound ``w . J(x) v`` on boxes, w being the row of `functionals`, (N, m), of each."""
        with np.errstate(over="ignore", invalid="ignore"):  # such boxes have no finite bound
            return self._bound(functionals, boxes)

    def _bound(self, functionals: Array, boxes: Boxes) -> Bounded:
        centre, reach = _middle(boxes.low, boxes.high)
        v_centre, v_reach = _middle(boxes.v_low, boxes.v_high)
        span = _Span(centre, reach, v_centre, v_reach)
        space = inherited(boxes.rise, boxes.least, centre, reach)
        layers: list[Relaxed] = []
        rows: list[tuple[Rows, Rows]] = []
        for i, level in enumerate(self.levels):
            both, z, u = self._preactivations(layers, i, span)
            h, t = (centre, reach), (v_centre, v_reach)
            if i:
                h, t = _outputs(layers[-1]), _tangents(layers[-1])
                z = _both(z, self._values(level, h))
                u = _both(u, self._tangents(level, t))
            rows.append(both)
            ends = both[0].low, both[0].high
            z = self._in_phase(i, _both(z, narrowed(both[0].x, ends, space, reach)), boxes)
            terms = _terms(level.sizes, h) + np.abs(level.bias), _terms(level.tangent_sizes, t)
            inner = i + 1 < len(self.levels) or self.euclidean
            layers.append(_relaxed(level, z, u, terms, inner, self.plain))
        return self._objective(functionals, layers, rows, span, boxes)

    def _in_phase(self, i: int, z: tuple[Array, Array], boxes: Boxes) -> tuple[Array, Array]:
        """Bounds of a layer's pre-activations within the phases; in wrong order if none is left."""
        if not self._places[i].size:
            return z
        low, high = z[0].copy(), z[1].copy()
        at, units = self._places[i], self._units[i]
        low[:, units] = np.maximum(low[:, units], boxes.z_low[:, at])
        high[:, units] = np.minimum(high[:, units], boxes.z_high[:, at])
        return low, high

    def _preactivations(
        self, layers: list[Relaxed], i: int, span: _Span
    ) -> tuple[tuple[Rows, Rows], tuple[Array, Array], tuple[Array, Array]]:
        """Affine functions and bounds of a layer's pre-activations and tangents."""
        level = self.levels[i]
        if i == 0:
            count = len(span.centre)
            weight, along = (
                np.broadcast_to(rows, (count, *rows.shape))
                for rows in (level.weight, level.tangents)
            )
            z = self._values(level, (span.centre, span.reach))
            u = self._tangents(level, (span.v_centre, span.v_reach))
            return (
                (Rows(weight, None, *z), Rows(np.broadcast_to(0.0, weight.shape), along, *u)),
                z,
                u,
            )
        values = self._back(layers, i - 1, level.weight, None, level.bias, span)
        tangents = self._back(layers, i - 1, None, level.weight, None, span)
        return (values, tangents), (values.low, values.high), (tangents.low, tangents.high)

    def _values(self, level: Level, signal: tuple[Array, Array]) -> tuple[Array, Array]:
        """Interval bounds of a layer's pre-activations, from those of the signal before it."""
        return self._natural(level.weight, level.sizes, signal, level.bias)

    def _tangents(self, level: Level, signal: tuple[Array, Array]) -> tuple[Array, Array]:
        """The same of their tangents."""
        return self._natural(level.tangents, level.tangent_sizes, signal, np.zeros(1))

    def _natural(
        self, weight: Array, sizes: Array, signal: tuple[Array, Array], bias: Array
    ) -> tuple[Array, Array]:
        """Interval bounds of ``W h + b`` for h in ``centre +- reach``."""
        centre, reach = signal
        middle, radius = centre @ weight.T + bias, reach @ sizes.T
        mass = np.abs(centre) @ sizes.T + radius + np.abs(bias)
        radius = radius + (self.gamma * mass + UNDERFLOW)
        return middle - radius, middle + radius

    def _back(
        self,
        layers: list[Relaxed],
        last: int,
        of_values: Array | None,
        of_tangents: Array | None,
        bias: Array | None,
        span: _Span,
    ) -> Rows:
        """Rows of outputs (or tangents) of layer `last`, as affine functions of (x, v)."""
        A, B = of_values, of_tangents
        start = A if A is not None else B
        assert start is not None
        count = len(span.centre)
        constant = np.zeros((count, len(start))) + (0.0 if bias is None else bias)
        radius = np.zeros_like(constant)
        mass = np.abs(constant)
        for j in range(last, -1, -1):
            layer, level = layers[j], self.levels[j]
            outer = layer.size
            P: Array | None = None
            if A is not None:
                s, middle, reach = layer.line
                P = A * s[:, None, :]
                constant = constant + _times(A, middle)
                added = _times2(np.abs(A), reach, np.abs(middle) + np.abs(s) * outer)
                radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
            if B is not None:
                assert layer.slope_line is not None
                s, middle, reach = layer.slope_line
                C = B * layer.m[:, None, :]
                P = C * s[:, None, :] if P is None else P + C * s[:, None, :]
                known = layer.m * layer.d
                constant = constant + _times(C, middle) - _times(B, known)
                size = np.abs(layer.m)
                spread = size * reach + layer.d_reach * layer.m_reach
                weight = size * (np.abs(middle) + np.abs(s) * outer)
                weight = weight + np.abs(known) + np.abs(layer.d) * layer.tangent_size
                added = _times2(np.abs(B), spread, weight)
                radius, mass = radius + added[..., 0], mass + added[..., 0] + added[..., 1]
                B = (B * layer.d[:, None, :]) @ level.tangents
            assert P is not None
            shift = P @ level.bias
            constant = constant + shift
            A = P @ level.weight
        assert A is not None
        centre = _times(A, span.centre)
        width = _times(np.abs(A), span.reach)
        mass = mass + _times(np.abs(A), np.abs(span.centre)) + width
        if B is not None:
            centre = centre + _times(B, span.v_centre)
            more = _times(np.abs(B), span.v_reach)
            width, mass = width + more, mass + _times(np.abs(B), np.abs(span.v_centre)) + more
        middle, reach = constant + centre, radius + width
        reach = reach + (self.gamma * mass + UNDERFLOW)
        return Rows(A, B, middle - reach, middle + reach)

    def _objective(
        self,
        functionals: Array,
        layers: list[Relaxed],
        rows: list[tuple[Rows, Rows]],
        span: _Span,
        boxes: Boxes,
    ) -> Bounded:
        """Go backwards with ``w . W_last`` as a whole."""
        count = len(span.centre)
        B = functionals @ self.head
        A = np.zeros_like(B)
        constant, mass = np.zeros(count), np.zeros(count)
        if layers:  # the first product rounds
            top = layers[-1]
            outer = (np.abs(top.d) + top.d_reach) * top.tangent_size
        else:
            outer = np.abs(span.v_centre) + span.v_reach
        mass = mass + (np.abs(functionals) @ np.abs(self.head) * outer).sum(axis=1)
        gaps: list[tuple[Array, Array]] = []
        planes: list[tuple[Array, Array]] = []
        for layer, level in zip(reversed(layers), reversed(self.levels), strict=True):
            C, half = B * layer.m, B * layer.m_reach
            s, ends, ranges = _of_ends(layer.samples, A, C, half)
            rate = layer.d if self.plain else _meeting(layer, half, ranges)
            both = list(zip(ends, ranges, strict=True))
            most = np.maximum(*(high - end * rate for end, (_, high) in both))
            constant = constant + (most + s * level.bias).sum(axis=1)
            sizes = np.maximum(*(np.abs(high) for _, high in ranges)) + np.abs(s) * layer.size
            sizes = sizes + (np.abs(C) + np.abs(half)) * (np.abs(layer.d) + layer.d_reach)
            mass = mass + (sizes + np.abs(B * rate) * layer.tangent_size).sum(axis=1)
            lines = sum((high - low for low, high in ranges), np.zeros_like(C))
            gaps.append((lines / 4.0, np.abs(half) * layer.d_reach))
            planes.append((s, rate))
            A, B = s @ level.weight, (B * rate) @ level.tangents
        upper = constant
        for row, middle, reach in (
            (A, span.centre, span.reach),
            (B, span.v_centre, span.v_reach),
        ):
            upper = upper + (row * middle).sum(axis=1) + (np.abs(row) * reach).sum(axis=1)
            mass = mass + (np.abs(row) * (np.abs(middle) + reach)).sum(axis=1)
        upper = upper + (self.gamma * mass + UNDERFLOW)
        upper = np.where(np.isnan(upper), np.inf, upper)
        above = self._by_phases(Above(upper, A), rows, span.reach, boxes)
        if self.domain is not None:
            above = confined(self.domain, above, span.centre, span.reach)
        upper = above.upper
        for layer in layers:
            upper = np.where((layer.low > layer.high).any(axis=1), -np.inf, upper)
        units = tuple(reversed(planes)), tuple(layers), tuple(rows), tuple(reversed(gaps))
        return Bounded(upper, above.x, B, above.multiples, *units)

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


class _Span(NamedTuple):
    """Middles and radii of boxes."""

    centre: Array
    reach: Array
    v_centre: Array
    v_reach: Array


def _middle(low: Array, high: Array) -> tuple[Array, Array]:
    """Middle and a radius that is not less than half the width."""
    centre = low + (high - low) / 2.0
    return centre, np.nextafter(np.maximum(high - centre, centre - low), np.inf) * (high > low)


def _times(rows: Array, values: Array) -> Array:
    """Rows (N, k, n) or (k, n) times a vector a box, (N, n)."""
    if rows.ndim == 2:
        return values @ rows.T
    return np.asarray(np.matmul(rows, values[..., None])[..., 0])


def _times2(rows: Array, first: Array, second: Array) -> Array:
    """The same for two vectors, (N, k, 2)."""
    return np.asarray(np.matmul(rows, np.stack([first, second], axis=-1)))


def _both(one: tuple[Array, Array], other: tuple[Array, Array]) -> tuple[Array, Array]:
    """What two enclosures of the same number leave."""
    return np.maximum(one[0], other[0]), np.minimum(one[1], other[1])


def _terms(sizes: Array, signal: tuple[Array, Array]) -> Array:
    """Sums of absolute values of the terms of ``W h`` for h in an interval."""
    return np.asarray((np.abs(signal[0]) + signal[1]) @ sizes.T)


def _relaxed(
    level: Level,
    z: tuple[Array, Array],
    u: tuple[Array, Array],
    terms: tuple[Array, Array],
    inner: bool,
    plain: bool,
) -> Relaxed:
    """The units of a layer whose pre-activations and tangents are bounded."""
    low, high = z
    top = np.maximum(low, high)  # no point is left of boxes in which they are in this order
    samples = tuple(
        (group, Samples.of(group.kind, low[:, group.units], top[:, group.units], plain))
        for group in level.groups
    )
    m, m_reach = _widened(*u)
    d, d_reach = _widened(*_by_group(samples, low.shape, lambda _, s: s.extremes(0.0, 1.0)))
    line = _by_group(samples, low.shape, lambda _, s: s.lines(1.0, 0.0))
    slope_line = None
    if inner:
        found = _by_group(samples, low.shape, lambda _, s: s.lines(0.0, 1.0))
        slope_line = _centred(*found)
    return Relaxed(
        low,
        high,
        _centred(*line),
        slope_line,
        d,
        d_reach,
        m,
        m_reach,
        *terms,
        samples,
    )


def _by_group(
    samples: tuple[tuple[Group, Samples], ...],
    shape: tuple[int, ...],
    of: Callable[[Group, Samples], tuple[Array, ...]],
) -> tuple[Array, ...]:
    """Values of a layer's groups, each unit's in its place."""
    if len(samples) == 1 and samples[0][0].units.size == shape[1]:
        return of(*samples[0])
    found: tuple[Array, ...] = ()
    for group, one in samples:
        values = of(group, one)
        found = found or tuple(np.empty(shape) for _ in values)
        for into, value in zip(found, values, strict=True):
            into[:, group.units] = value
    return found


def _of_ends(
    samples: tuple[tuple[Group, Samples], ...], A: Array, C: Array, half: Array
) -> tuple[Array, tuple[Array, Array], tuple[tuple[Array, Array], tuple[Array, Array]]]:
    """The slope s for C, both ends, ``C -+ half``, and ranges of ``A sigma + end sigma' - s z``."""
    ends = C - half, C + half

    def of(group: Group, one: Samples) -> tuple[Array, ...]:
        k = group.units if len(samples) > 1 else slice(None)
        s = one.chord(A[:, k], C[:, k])
        first, second = (one.extremes(A[:, k], end[:, k], s) for end in ends)
        return s, *first, *second

    s, low, high, other_low, other_high = _by_group(samples, A.shape, of)
    return s, ends, ((low, high), (other_low, other_high))


def _meeting(
    layer: Relaxed, half: Array, ranges: tuple[tuple[Array, Array], tuple[Array, Array]]
) -> Array:
    """The r for which both ends give the same, or the nearest one in the range of sigma'."""
    rise = ranges[1][1] - ranges[0][1]
    rate = np.divide(rise, 2.0 * half, out=layer.d.copy(), where=half != 0.0)
    rate = np.where(np.isfinite(rate), rate, layer.d)
    return np.clip(rate, layer.d - layer.d_reach, layer.d + layer.d_reach)


def _widened(low: Array, high: Array) -> tuple[Array, Array]:
    """Middle of an interval, and a radius that holds it."""
    middle = low + (high - low) / 2.0
    reach = np.maximum(high - middle, middle - low)
    return middle, np.maximum(np.nextafter(reach, np.inf), 0.0)


def _centred(s: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    return s, *_widened(low, high)


def _outputs(layer: Relaxed) -> tuple[Array, Array]:
    """Middles and radii of a layer's outputs sigma(z)."""
    s, middle, reach = layer.line
    z, z_reach = _widened(layer.low, layer.high)
    centre = s * z + middle
    slack = np.abs(s) * z_reach
    rounding = 8.0 * 2.0**-52 * (np.abs(s * z) + np.abs(middle) + slack + reach)
    return centre, slack + reach + rounding


def _tangents(layer: Relaxed) -> tuple[Array, Array]:
    """Middles and radii of ``sigma'(z) u``."""
    centre = layer.d * layer.m
    reach = np.abs(layer.d) * layer.m_reach + layer.d_reach * (np.abs(layer.m) + layer.m_reach)
    return centre, reach + 8.0 * 2.0**-52 * (np.abs(centre) + reach)
