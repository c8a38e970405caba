"""The bound of a box once more, in Arb: nothing rests on float64 arithmetic or its error bounds.

The formulas are those of `bound` and `lines`, with definitions instead of the functions of `kinds`,
of which the breaks and the bounds of derivatives stay in use.  Where a choice is free, such as the
slope of a line, it is a float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx

from lipyomo_check.smooth.balls import (
    Numbers,
    Range,
    Ranges,
    absolute,
    added,
    affine_range,
    columns_times,
    floats_around,
    largest_value,
    matrix_of,
    meet,
    overlap,
    product,
    ranges_of,
    spread,
    unzipped,
)
from lipyomo_check.smooth.bound import Bounded, Boxes, Chain
from lipyomo_check.smooth.definitions import Unit, units_of
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import Multiple
from lipyomo_check.smooth.lines import CHORD, Samples
from lipyomo_check.statement import BITS, Layer


class Piece(NamedTuple):
    """A unit's functions on one piece of its range."""

    ends: tuple[float, float]
    values: tuple[arb, arb]
    slopes: tuple[arb, arb]
    centre: tuple[arb, arb]
    share: arb
    second: Range
    third: Range


class Known(NamedTuple):
    """A layer over a box: lines of sigma (and, in inner layers, sigma'), ranges of sigma' and u.

    `rows` and `rests` are affine functions of the pre-activations, coefficients and ranges.
    """

    pieces: list[list[Piece]]
    slopes: list[Numbers]
    rests: list[Ranges]
    d: Ranges
    u: Ranges
    rows: arb_mat
    z: Ranges


class Affine(NamedTuple):
    """An affine function of (x, v) above the objective: its maximum and its coefficients."""

    upper: arb
    x: Numbers
    v: Numbers


class StrictChain:
    """A network whose boxes are bounded in Arb.

    Parameters
    ----------
    chain : Chain
    hidden : sequence of Layer
        Its hidden layers.
    """

    def __init__(self, chain: Chain, hidden: Sequence[Layer]) -> None:
        self.chain, self.units = chain, list(map(units_of, hidden))
        self.weights = [matrix_of(level.weight) for level in chain.levels]
        self.tangents = [matrix_of(level.tangents) for level in chain.levels]
        self.biases = [list(map(arb, level.bias.tolist())) for level in chain.levels]
        self.head = matrix_of(chain.head)

    def bound(self, functional: Array, box: Boxes, known: Bounded) -> tuple[Affine, list[Known]]:
        """Bound ``w . J(x) v`` on one box; minus infinity if it has no point in its phases.

        Slopes of the objective's planes and multiples of half-spaces are those that float64 found.
        The layers are those of a box that has points.
        """
        with ctx.workprec(BITS):
            x, v = ranges_of(box.low[0], box.high[0]), ranges_of(box.v_low[0], box.v_high[0])
            layers: list[Known] = []
            h, t = x, v
            for i, weight in enumerate(self.weights):
                natural = affine_range(weight, h, self.biases[i]), affine_range(self.tangents[i], t)
                if i == 0:
                    z, u, rows = *natural, weight
                else:
                    rows, own = self._back(layers, i, True, x, v)
                    z, u = own, meet(natural[1], self._back(layers, i, False, x, v)[1])
                outer = z
                ends = self._in_phase(i, meet(natural[0], _narrowed(rows, z, box, x)), box)
                if ends is None:
                    return Affine(arb(-math.inf), [], []), []
                layers.append(self._layer(i, ends, u, rows, outer))
                h, t = _outputs(layers[-1], ends), _products(layers[-1].d, u)
            found = self._objective(functional, layers, known, x, v)
            last = known.multiples[-2:]
            spaces = (*self._of_phases(layers, x, box), *self._of_domain(x, last))
            for one, space in zip(known.multiples, spaces, strict=True):
                if one.mu is not None and one.mu[0] > 0.0:
                    found = _with_multiple(found, arb(float(one.mu[0])), *space(), x[1])
            return found, layers

    def _in_phase(self, i: int, z: Ranges, box: Boxes) -> list[tuple[float, float]] | None:
        """Ends of pre-activations within the phases, as floats."""
        ends = [floats_around(middle, radius) for middle, radius in zip(*z, strict=True)]
        for n, (layer, k) in enumerate(self.chain.broken):
            if layer == i:
                low, high = ends[k]
                ends[k] = max(low, float(box.z_low[0, n])), min(high, float(box.z_high[0, n]))
        return None if any(low > high for low, high in ends) else ends

    def _layer(
        self, i: int, ends: list[tuple[float, float]], u: Ranges, rows: arb_mat, z: Ranges
    ) -> Known:
        pieces = [_pieces(unit, *end) for unit, end in zip(self.units[i], ends, strict=True)]
        one, nothing = arb(1), arb(0)
        slopes, rests = [], []
        inner = i + 1 < len(self.weights) or self.chain.euclidean  # else nothing goes back there
        for A, c in ((one, nothing), *(((nothing, one),) if inner else ())):
            chosen = [_chord(own, A, c) for own in pieces]
            found = [self._extremes(own, A, c, s) for own, s in zip(pieces, chosen, strict=True)]
            slopes.append(chosen)
            rests.append(unzipped(found))
        d = unzipped(self._extremes(own, nothing, one, nothing) for own in pieces)
        return Known(pieces, slopes, rests, d, u, rows, z)

    def _extremes(self, pieces: list[Piece], A: arb, c: arb, s: arb) -> Range:
        """Middle and radius of what holds ``A sigma(z) + c sigma'(z) - s z`` on all pieces."""
        low, high = arb(math.inf), arb(-math.inf)
        for piece in pieces:
            sides = zip(piece.ends, piece.values, piece.slopes, strict=True)
            start, end = (A * value + c * slope - s * arb(z) for z, value, slope in sides)
            bend = A * piece.second[0] + c * piece.third[0]
            spread = abs(A) * piece.second[1] + abs(c) * piece.third[1]
            heights = [piece.share * (spread + side).max(arb(0)) for side in (bend, -bend)]
            if not self.chain.plain:
                heights = [_beyond(abs(start - end) / 4, height) for height in heights]
            low = low.min(start.min(end) - heights[0])
            high = high.max(start.max(end) + heights[1])
        middle = arb(float((low + high) / 2))
        return middle, (high - middle).max(middle - low)

    def _back(
        self, layers: list[Known], last: int, values: bool, x: Ranges, v: Ranges
    ) -> tuple[arb_mat, Ranges]:
        """A layer's pre-activations (or tangents) by going backwards: coefficients of x, ranges."""
        weight = self.weights[last]
        A: arb_mat | None = weight if values else None
        B: arb_mat | None = None if values else weight
        middle = list(self.biases[last]) if values else [arb(0)] * weight.nrows()
        radius = [arb(0)] * weight.nrows()
        for j in range(last - 1, -1, -1):
            layer = layers[j]
            P: arb_mat | None = None
            parts: list[tuple[arb_mat, Ranges]] = []
            if A is not None:
                P = columns_times(A, layer.slopes[0])
                parts.append((A, layer.rests[0]))
            if B is not None:
                m, m_reach = layer.u
                d, d_reach = layer.d
                more = columns_times(B, [a * s for a, s in zip(m, layer.slopes[1], strict=True)])
                P = more if P is None else P + more
                rest, reach = layer.rests[1]
                own = zip(m, rest, d, strict=True)
                spread = zip(m, reach, d_reach, m_reach, strict=True)
                parts.append(
                    (
                        B,
                        (
                            [a * (b - c) for a, b, c in own],
                            [abs(a) * b + c * e for a, b, c, e in spread],
                        ),
                    )
                )
                B = columns_times(B, d) * self.tangents[j]
            for rows, (mids, reaches) in parts:
                middle = added(middle, product(rows, mids))
                radius = added(radius, product(absolute(rows), reaches))
            assert P is not None
            middle = added(middle, product(P, self.biases[j]))
            A = P * self.weights[j]
        assert A is not None
        for rows, signal in ((A, x), *(() if B is None else ((B, v),))):
            middle = added(middle, product(rows, signal[0]))
            radius = added(radius, product(absolute(rows), signal[1]))
        return A, (middle, radius)

    def _objective(
        self, functional: Array, layers: list[Known], known: Bounded, x: Ranges, v: Ranges
    ) -> Affine:
        """Go backwards with ``w . W_last`` as a whole."""
        B = (arb_mat([functional.tolist()]) * self.head).entries()
        A = [arb(0)] * len(B)
        total = arb(0)
        for i in range(len(layers) - 1, -1, -1):
            layer = layers[i]
            planes = known.planes[i]
            slopes, rates = (list(map(arb, side[0].tolist())) for side in (planes.s, planes.r))
            for k, (pieces, s, rate) in enumerate(zip(layer.pieces, slopes, rates, strict=True)):
                m, m_reach = layer.u[0][k], layer.u[1][k]
                ends = B[k] * (m - m_reach), B[k] * (m + m_reach)
                tops = [sum(self._extremes(pieces, A[k], end, s)) - end * rate for end in ends]
                total += tops[0].max(tops[1]) + s * self.biases[i][k]
            B = [b * rate for b, rate in zip(B, rates, strict=True)]
            A = (arb_mat([slopes]) * self.weights[i]).entries()
            B = (arb_mat([B]) * self.tangents[i]).entries()
        return Affine(total + largest_value(A, x) + largest_value(B, v), A, B)

    def _of_phases(self, layers: list[Known], x: Ranges, box: Boxes) -> Iterator[Space]:
        """The half-spaces of phases that cut through the box."""
        for n, (i, k) in enumerate(self.chain.broken):
            for side, sign in ((float(box.z_high[0, n]), -1), (float(box.z_low[0, n]), 1)):
                yield partial(_of_phase, layers[i], k, side, sign, x)

    def _of_domain(self, x: Ranges, last: Sequence[Multiple]) -> Iterator[Space]:
        """Those of the domain's rows, and tangents of its ball, whose normals are given."""
        domain = self.chain.domain
        if domain is None:
            return
        for row, b in zip(domain.A, domain.b, strict=True):
            yield partial(_of_row, row, b, x)
        if domain.ball is not None:
            for one in last:
                yield partial(_tangent, domain.ball, one, x)


Space = Callable[[], tuple[Numbers, arb]]
"""Makes the coefficients of a half-space, ``level + a . (x - centre) >= 0``, and its level."""


def _of_phase(layer: Known, k: int, side: float, sign: int, x: Ranges) -> tuple[Numbers, arb]:
    a = [sign * layer.rows[k, j] for j in range(len(x[0]))]
    middle, radius = layer.z[0][k], layer.z[1][k]
    return a, sign * middle + radius - sign * arb(side) - spread(a, x[1])


def _of_row(row: Sequence[float], b: float, x: Ranges) -> tuple[Numbers, arb]:
    a = [arb(-v) for v in row]
    return a, sum((v * m for v, m in zip(a, x[0], strict=True)), arb(b))


def _tangent(ball: tuple[str, list[float], float], one: Multiple, x: Ranges) -> tuple[Numbers, arb]:
    assert one.rows is not None
    norm, point, radius = ball
    normal = [arb(v) for v in one.rows[0].tolist()]
    size = max(map(abs, normal)) if norm == "l1" else sum((v * v for v in normal), arb(0)).sqrt()
    gaps = (v * (m - arb(c)) for v, m, c in zip(normal, x[0], point, strict=True))
    return [-v for v in normal], arb(radius) * size - sum(gaps, arb(0))


def _with_multiple(found: Affine, mu: arb, a: Numbers, level: arb, reach: Numbers) -> Affine:
    """An upper function with a multiple of what is not negative."""
    new = [b + mu * c for b, c in zip(found.x, a, strict=True)]
    return Affine(
        found.upper + mu * level + spread(new, reach) - spread(found.x, reach), new, found.v
    )


def _pieces(unit: Unit, low: float, high: float) -> list[Piece]:
    """A unit's functions on the pieces that `lines` takes."""
    samples = Samples.of(unit.kind, np.array([low]), np.array([high]))
    ends = samples.ends[:, 0].tolist()
    step = 2 if unit.kind.breaks else 1
    second, third, fourth = map(arb, unit.kind.bounds)
    found = []
    for n, (a, b) in enumerate(zip(ends[:-1:step], ends[1::step], strict=True)):
        sides = tuple(bool(side[n, 0]) for side in samples.right)
        start, end = unit.at(a, sides, 2), unit.at(b, sides, 2)
        centre = a + (b - a) / 2.0
        _, one, two, three = unit.at(centre, sides, 4)
        half = (arb(b) - arb(centre)).max(arb(centre) - arb(a))
        reach = half * (abs(three) + half * fourth / 2).min(third)
        bends = (
            overlap((two, reach), (arb(0), second)),
            overlap((three, half * fourth), (arb(0), third)),
        )
        values, slopes = (start[0], end[0]), (start[1], end[1])
        share = (arb(b) - arb(a)) ** 2 / 8
        found.append(Piece((a, b), values, slopes, (one, two), share, *bends))
    return found


def _chord(pieces: list[Piece], A: arb, c: arb) -> arb:
    """A slope, as `lines` chooses it."""
    first, last = pieces[0], pieces[-1]
    width = last.ends[1] - first.ends[0]
    if width > CHORD:
        rise = A * (last.values[1] - first.values[0]) + c * (last.slopes[1] - first.slopes[0])
        found = float(rise) / width
    else:
        one, two = pieces[len(pieces) // 2].centre
        found = float(A * one + c * two)
    return arb(found if math.isfinite(found) else 0.0)


def _beyond(apart: arb, height: arb) -> arb:
    """How far a chord and a parabola together go beyond both ends, as in `lines`."""
    return height * (1 - apart / height).max(arb(0)) ** 2 if height > 0 else height


def _narrowed(rows: arb_mat, z: Ranges, box: Boxes, x: Ranges) -> Ranges:
    """Ranges of functions with coefficients `rows` within a box's half-space, as `narrowed`."""
    least, a = float(box.least[0]), list(map(arb, box.rise[0].tolist()))
    if not math.isfinite(least):
        return z
    level = sum((b * m for b, m in zip(a, x[0], strict=True)), arb(-least))
    turn = spread(a, x[1])
    if not (level < turn and turn > 0):
        return z
    left = min(max(0.5 + 0.5 * float(level) / float(turn), ULP), 1.0)
    found = []
    for row, middle, radius in zip(rows.tolist(), *z, strict=True):
        size = spread(row, x[1])
        mu = arb(-math.log(left)) * float(size) / float(turn)
        low, high = middle - radius, middle + radius
        for sign in (-1, 1):
            turned = [b + sign * mu * c for b, c in zip(row, a, strict=True)]
            gain = (size - mu * level - spread(turned, x[1])).max(arb(0))
            low, high = (low + gain, high) if sign < 0 else (low, high - gain)
        found.append(((low + high) / 2, (high - low) / 2))
    return unzipped(found)


def _outputs(layer: Known, ends: list[tuple[float, float]]) -> Ranges:
    """Ranges of sigma(z), by its lines."""
    z = ranges_of(np.array([low for low, _ in ends]), np.array([high for _, high in ends]))
    slopes, (middle, reach) = layer.slopes[0], layer.rests[0]
    return (
        [s * a + b for s, a, b in zip(slopes, z[0], middle, strict=True)],
        [abs(s) * a + b for s, a, b in zip(slopes, z[1], reach, strict=True)],
    )


def _products(d: Ranges, u: Ranges) -> Ranges:
    """Ranges of ``sigma'(z) u``."""
    middle = [a * b for a, b in zip(d[0], u[0], strict=True)]
    pairs = zip(*d, *u, strict=True)
    return middle, [abs(a) * s + r * (abs(b) + s) for a, r, b, s in pairs]
