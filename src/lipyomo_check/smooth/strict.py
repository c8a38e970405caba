"""The bound of a box once more, in Arb: nothing rests on float64 arithmetic or its error bounds.

The formulas are those of `bound` and `lines`, with definitions instead of the functions of `kinds`,
of which the breaks and the bounds of derivatives stay in use.  Where a choice is free, such as the
slope of a line, it is a float.  Ranges are pairs of a middle and a radius, which are numbers of
Arb themselves: the radius that such a number has of its own has 30 bits only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat, ctx

from lipyomo_check.smooth.bound import Bounded, Boxes, Chain
from lipyomo_check.smooth.definitions import Sides, derivatives_at, line_at
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import Multiple
from lipyomo_check.smooth.kinds import Kind, kind_of, two_slopes
from lipyomo_check.smooth.lines import CHORD, Samples
from lipyomo_check.statement import BITS, Layer

Numbers = list[arb]
Range = tuple[arb, arb]
Ranges = tuple[Numbers, Numbers]
"""Middles and radii."""


class Unit(NamedTuple):
    """One unit: its kind, the name of its activation (None for two slopes), its slopes."""

    kind: Kind
    name: str | None
    left: float
    right: float

    def at(self, z: float, sides: Sides, count: int) -> Numbers:
        """Sigma and its first derivatives."""
        if self.name is not None:
            return derivatives_at(self.name, arb(z), sides, count)
        return line_at(self.right if sides and sides[0] else self.left, arb(z), count)


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
        self.weights = [_matrix(level.weight) for level in chain.levels]
        self.tangents = [_matrix(level.tangents) for level in chain.levels]
        self.biases = [list(map(arb, level.bias.tolist())) for level in chain.levels]
        self.head = _matrix(chain.head)

    def bound(self, functional: Array, box: Boxes, known: Bounded) -> tuple[Affine, list[Known]]:
        """Bound ``w . J(x) v`` on one box; minus infinity if it has no point in its phases.

        Slopes of the objective's planes and multiples of half-spaces are those that float64 found.
        The layers are those of a box that has points.
        """
        with ctx.workprec(BITS):
            x, v = _ranges(box.low[0], box.high[0]), _ranges(box.v_low[0], box.v_high[0])
            layers: list[Known] = []
            h, t = x, v
            for i, weight in enumerate(self.weights):
                natural = _affine(weight, h, self.biases[i]), _affine(self.tangents[i], t)
                if i == 0:
                    z, u, rows = *natural, weight
                else:
                    rows, own = self._back(layers, i, True, x, v)
                    z, u = own, _meet(natural[1], self._back(layers, i, False, x, v)[1])
                outer = z
                ends = self._in_phase(i, _meet(natural[0], _narrowed(rows, z, box, x)), box)
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
        ends = [_ends(middle, radius) for middle, radius in zip(*z, strict=True)]
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
            rests.append(_split(found))
        d = _split(self._extremes(own, nothing, one, nothing) for own in pieces)
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
                P = _scaled(A, layer.slopes[0])
                parts.append((A, layer.rests[0]))
            if B is not None:
                m, m_reach = layer.u
                d, d_reach = layer.d
                more = _scaled(B, [a * s for a, s in zip(m, layer.slopes[1], strict=True)])
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
                B = _scaled(B, d) * self.tangents[j]
            for rows, (mids, reaches) in parts:
                middle = _plus(middle, _times(rows, mids))
                radius = _plus(radius, _times(_sizes(rows), reaches))
            assert P is not None
            middle = _plus(middle, _times(P, self.biases[j]))
            A = P * self.weights[j]
        assert A is not None
        for rows, signal in ((A, x), *(() if B is None else ((B, v),))):
            middle = _plus(middle, _times(rows, signal[0]))
            radius = _plus(radius, _times(_sizes(rows), signal[1]))
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
            slopes, rates = (list(map(arb, side[0].tolist())) for side in known.planes[i])
            for k, (pieces, s, rate) in enumerate(zip(layer.pieces, slopes, rates, strict=True)):
                m, m_reach = layer.u[0][k], layer.u[1][k]
                ends = B[k] * (m - m_reach), B[k] * (m + m_reach)
                tops = [sum(self._extremes(pieces, A[k], end, s)) - end * rate for end in ends]
                total += tops[0].max(tops[1]) + s * self.biases[i][k]
            B = [b * rate for b, rate in zip(B, rates, strict=True)]
            A = (arb_mat([slopes]) * self.weights[i]).entries()
            B = (arb_mat([B]) * self.tangents[i]).entries()
        return Affine(total + _most(A, x) + _most(B, v), A, B)

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
    return a, sign * middle + radius - sign * arb(side) - _size(a, x[1])


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
        found.upper + mu * level + _size(new, reach) - _size(found.x, reach), new, found.v
    )


def _size(row: Numbers, reach: Numbers) -> arb:
    """The sum of absolute values of a row times the radii of a box."""
    return sum((abs(a) * r for a, r in zip(row, reach, strict=True)), arb(0))


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
        bends = _within(two, reach, second), _within(three, half * fourth, third)
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
    turn = _size(a, x[1])
    if not (level < turn and turn > 0):
        return z
    left = min(max(0.5 + 0.5 * float(level) / float(turn), ULP), 1.0)
    found = []
    for row, middle, radius in zip(rows.tolist(), *z, strict=True):
        size = _size(row, x[1])
        mu = arb(-math.log(left)) * float(size) / float(turn)
        low, high = middle - radius, middle + radius
        for sign in (-1, 1):
            turned = [b + sign * mu * c for b, c in zip(row, a, strict=True)]
            gain = (size - mu * level - _size(turned, x[1])).max(arb(0))
            low, high = (low + gain, high) if sign < 0 else (low, high - gain)
        found.append(((low + high) / 2, (high - low) / 2))
    return _split(found)


def _within(middle: arb, radius: arb, bound: arb) -> Range:
    """Middle and radius of what a range and [-bound, bound] share."""
    low, high = (middle - radius).max(-bound), (middle + radius).min(bound)
    return (low + high) / 2, ((high - low) / 2).max(arb(0))


def _outputs(layer: Known, ends: list[tuple[float, float]]) -> Ranges:
    """Ranges of sigma(z), by its lines."""
    z = _ranges(np.array([low for low, _ in ends]), np.array([high for _, high in ends]))
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


def _affine(weight: arb_mat, signal: Ranges, bias: Numbers | None = None) -> Ranges:
    """Ranges of ``W h + b``."""
    middle = _times(weight, signal[0])
    return middle if bias is None else _plus(middle, bias), _times(_sizes(weight), signal[1])


def _meet(one: Ranges, other: Ranges) -> Ranges:
    """What two ranges of the same number share."""
    own, others = zip(*one, strict=True), zip(*other, strict=True)
    return _split(_shared(a, b) for a, b in zip(own, others, strict=True))


def _shared(one: Range, other: Range) -> Range:
    low = (one[0] - one[1]).max(other[0] - other[1])
    high = (one[0] + one[1]).min(other[0] + other[1])
    return (low + high) / 2, ((high - low) / 2).max(arb(0))


def _ranges(low: Array, high: Array) -> Ranges:
    pairs = [(arb(a), arb(b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    return [(a + b) / 2 for a, b in pairs], [(b - a) / 2 for a, b in pairs]


def _ends(middle: arb, radius: arb) -> tuple[float, float]:
    """Floats around a range."""
    low, high = float((middle - radius).lower()), float((middle + radius).upper())
    return math.nextafter(low, -math.inf), math.nextafter(high, math.inf)


def _split(ranges: Iterable[Range]) -> Ranges:
    pairs = list(ranges)
    return [a for a, _ in pairs], [b for _, b in pairs]


def _most(row: Numbers, signal: Ranges) -> arb:
    """The largest value of a linear function."""
    terms = (a * m + abs(a) * r for a, m, r in zip(row, *signal, strict=True))
    return sum(terms, arb(0))


def _matrix(rows: Array) -> arb_mat:
    return arb_mat(rows.tolist())


def _times(rows: arb_mat, values: Numbers) -> Numbers:
    found: Numbers = (rows * arb_mat([[value] for value in values])).entries()
    return found


def _sizes(rows: arb_mat) -> arb_mat:
    return arb_mat(rows.nrows(), rows.ncols(), [abs(a) for a in rows.entries()])


def _scaled(rows: arb_mat, factors: Numbers) -> arb_mat:
    """Columns times factors."""
    n = rows.ncols()
    entries = [a * factors[k % n] for k, a in enumerate(rows.entries())]
    return arb_mat(rows.nrows(), n, entries)


def _plus(one: Numbers, other: Numbers) -> Numbers:
    return [a + b for a, b in zip(one, other, strict=True)]


def units_of(layer: Layer) -> list[Unit]:
    """The units of a layer one by one."""
    names = {k: name for name, units in layer.curves for k in units}
    found = []
    for k, (left, right) in enumerate(zip(layer.left, layer.right, strict=True)):
        name = names.get(k)
        kind = two_slopes(left, right) if name is None else kind_of(name)
        found.append(Unit(kind, name, left, right))
    return found
