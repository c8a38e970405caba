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
    product,
    ranges_of,
    spread,
    unzipped,
)
from lipyomo_check.smooth.bound import Bounded, Chain
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import Multiple
from lipyomo_check.smooth.levels import Exact, Level, units_alone
from lipyomo_check.smooth.strict_factors import (
    Form,
    around,
    forms_of,
    left_of,
    plane_error,
    times,
)
from lipyomo_check.smooth.strict_pieces import Piece, chord, extremes, pieces_of
from lipyomo_check.statement import BITS, Layer


class Known(NamedTuple):
    """A layer over a box: lines of sigma (and, in inner layers, sigma'), ranges of sigma' and u.

    Slopes, and `d`, are those of branches (`levels`), rests of outputs, but the second ones, which
    are of branches as well.  `change` holds the outputs' tangents: slopes in z, and what is left.
    `rows` and `z` are affine functions of the pre-activations, coefficients and ranges; `forms`
    those of z and of u, in layers with products.
    """

    pieces: list[list[Piece]]
    slopes: list[Numbers]
    rests: list[Ranges]
    change: tuple[Numbers, Ranges] | None
    d: Ranges
    u: Ranges
    rows: arb_mat
    z: Ranges
    forms: tuple[list[Form], list[Form]] | None


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
        self.chain, self.units = chain, list(map(units_alone, hidden))
        self.weights = [_exact(level.weight, level.rest, 0) for level in chain.levels]
        self.tangents = [_exact(level.tangents, level.rest, 2) for level in chain.levels]
        self.biases = [_exact(level.bias[None], level.rest, 1).entries() for level in chain.levels]
        own = [level.branches.tolist() for level in chain.levels]
        self.branch_weights, self.branch_tangents = (
            [_taken(rows, which) for rows, which in zip(all_rows, own, strict=True)]
            for all_rows in (self.weights, self.tangents)
        )
        self.branch_biases = [
            [bias[k] for k in which] for bias, which in zip(self.biases, own, strict=True)
        ]
        self.head = matrix_of(chain.head)

    def bound(
        self, functional: Array, box: Boxes, known: Bounded, shell: Sequence[Space] = ()
    ) -> tuple[Affine, list[Known]]:
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
                    (z, u), rows = natural, weight
                    along: tuple[arb_mat | None, arb_mat | None] = (None, self.tangents[0])
                    of_u = u
                else:
                    rows, _, z = self._back(layers, i, True, x, v)
                    of_x, of_v, of_u = self._back(layers, i, False, x, v)
                    along = of_x, of_v
                    u = meet(natural[1], of_u)
                outer = z
                ends = self._in_phase(i, meet(natural[0], _narrowed(rows, z, box, x)), box)
                if ends is None:
                    return Affine(arb(-math.inf), [], []), []
                forms = None
                if self.chain.levels[i].products is not None:
                    reach = x[1], v[1]
                    exact = [(arb(low), arb(high)) for low, high in ends]
                    own = [(m - r, m + r) for m, r in zip(*u, strict=True)]
                    forms = (
                        forms_of([(rows, reach[0]), (None, reach[1])], outer, exact),
                        forms_of(list(zip(along, reach, strict=True)), of_u, own),
                    )
                layers.append(self._layer(i, ends, u, rows, outer, forms))
                h, t = self._outputs(i, layers[-1], ends), self._products(i, layers[-1], ends)
            found = self._objective(functional, layers, known, x, v)
            last = known.multiples[: len(known.multiples) - len(shell)][-2:]
            spaces = (*self._of_phases(layers, x, box), *self._of_domain(x, last), *shell)
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
        self,
        i: int,
        ends: list[tuple[float, float]],
        u: Ranges,
        rows: arb_mat,
        z: Ranges,
        forms: tuple[list[Form], list[Form]] | None,
    ) -> Known:
        units = self.units[i]
        pieces = [pieces_of(unit, *end) for unit, end in zip(units, ends, strict=False)]
        one, nothing = arb(1), arb(0)
        slopes, rests = [], []
        inner = i + 1 < len(self.weights) or self.chain.euclidean  # else nothing goes back there
        for A, c in ((one, nothing), *(((nothing, one),) if inner else ())):
            chosen = [chord(own, A, c) for own in pieces]
            found = [
                extremes(own, A, c, s, self.chain.plain)
                for own, s in zip(pieces, chosen, strict=True)
            ]
            slopes.append(chosen)
            rests.append(unzipped(found))
        d = unzipped(extremes(own, nothing, one, nothing, self.chain.plain) for own in pieces)
        change = None
        if inner:
            some = zip(u[0], u[1], *d, slopes[1], *rests[1], strict=False)
            tilts, left = [], []
            for m, m_reach, rate, rate_reach, s, middle, reach in some:
                tilts.append(m * s)
                left.append((m * (middle - rate), abs(m) * reach + rate_reach * m_reach))
            change = tilts, unzipped(left)
        layer = Known(pieces, slopes, rests, change, d, u, rows, z, forms)
        return layer if forms is None else self._with_products(i, layer)

    def _with_products(self, i: int, layer: Known) -> Known:
        """With lines of products behind those of units."""
        products = self.chain.levels[i].products
        assert products is not None
        assert layer.forms is not None
        z, u = layer.forms
        pairs = list(zip(products.left.tolist(), products.right.tolist(), strict=True))
        m = [around(form.ends) for form in z]
        slopes = [m[j][0] for _, j in pairs] + [m[i][0] for i, _ in pairs]
        radii = [m[j][1] for _, j in pairs] + [m[i][1] for i, _ in pairs]
        n = layer.u[0]
        values, drifts = [], []
        for a, b in pairs:
            (f, _), (g, _) = m[a], m[b]
            middle, reach = around(left_of(z[a], z[b], f, g))
            values.append((middle - f * g, reach))
            one = around(left_of(u[a], z[b], n[a], g))
            other = around(left_of(z[a], u[b], f, n[b]))
            drift = one[0] + other[0] - n[a] * g - f * n[b]
            drifts.append((drift, one[1] + other[1]))
        given, nothing = layer.slopes, [arb(0)] * len(slopes)
        found_slopes = [given[0] + slopes, *(s + [arb(1)] * len(slopes) for s in given[1:])]
        found_rests = [_behind(layer.rests[0], unzipped(values))]
        found_rests += [_behind(rest, (nothing, nothing)) for rest in layer.rests[1:]]
        change = None
        if layer.change is not None:
            tilts = [n[b] for _, b in pairs] + [n[a] for a, _ in pairs]
            change = layer.change[0] + tilts, _behind(layer.change[1], unzipped(drifts))
        return layer._replace(
            slopes=found_slopes,
            rests=found_rests,
            change=change,
            d=_behind(layer.d, (slopes, radii)),
        )

    def _back(
        self, layers: list[Known], last: int, values: bool, x: Ranges, v: Ranges
    ) -> tuple[arb_mat, arb_mat | None, Ranges]:
        """A layer's pre-activations (or tangents) by going backwards: coefficients, and ranges."""
        weight = self.weights[last]
        A: arb_mat | None = weight if values else None
        B: arb_mat | None = None if values else weight
        middle = list(self.biases[last]) if values else [arb(0)] * weight.nrows()
        radius = [arb(0)] * weight.nrows()
        for j in range(last - 1, -1, -1):
            layer, level = layers[j], self.chain.levels[j]
            P: arb_mat | None = None
            parts: list[tuple[arb_mat, Ranges]] = []
            if A is not None:
                P = columns_times(spread_out(level, A), layer.slopes[0])
                parts.append((A, layer.rests[0]))
            if B is not None:
                assert layer.change is not None
                parts.append((B, layer.change[1]))
                B = spread_out(level, B)
                more = columns_times(B, layer.change[0])
                P = more if P is None else P + more
                B = columns_times(B, layer.d[0]) * self.branch_tangents[j]
            for rows, (mids, reaches) in parts:
                middle = added(middle, product(rows, mids))
                radius = added(radius, product(absolute(rows), reaches))
            assert P is not None
            middle = added(middle, product(P, self.branch_biases[j]))
            A = P * self.branch_weights[j]
        assert A is not None
        for rows, signal in ((A, x), *(() if B is None else ((B, v),))):
            middle = added(middle, product(rows, signal[0]))
            radius = added(radius, product(absolute(rows), signal[1]))
        return A, B, (middle, radius)

    def _objective(
        self, functional: Array, layers: list[Known], known: Bounded, x: Ranges, v: Ranges
    ) -> Affine:
        """Go backwards with ``w . W_last`` as a whole."""
        first = (arb_mat([functional.tolist()]) * self.head).entries()
        A, B = [arb(0)] * len(first), first
        total = arb(0)
        if self.chain.offset is not None:
            A, B = first, [arb(0)] * len(first)
            pairs = zip(functional.tolist(), self.chain.offset.tolist(), strict=True)
            total = sum((arb(c) * arb(b) for c, b in pairs), arb(0))
        for i in range(len(layers) - 1, -1, -1):
            layer, planes = layers[i], known.planes[i]
            n = len(layer.pieces)
            slopes, rates = (list(map(arb, side[0, :n].tolist())) for side in (planes.s, planes.r))
            for k, (pieces, s, rate) in enumerate(zip(layer.pieces, slopes, rates, strict=True)):
                m, m_reach = layer.u[0][k], layer.u[1][k]
                ends = B[k] * (m - m_reach), B[k] * (m + m_reach)
                tops = [
                    sum(extremes(pieces, A[k], end, s, self.chain.plain)) - end * rate
                    for end in ends
                ]
                total += tops[0].max(tops[1])
            rates = [b * rate for b, rate in zip(B[:n], rates, strict=True)]
            if layer.forms is not None:
                points = planes.points[0].tolist()
                more, own, others = self._above(i, layer.forms, A[n:], B[n:], points)
                total, slopes, rates = total + more, slopes + own, rates + others
            total += _dot(slopes, self.branch_biases[i])
            A = (arb_mat([slopes]) * self.branch_weights[i]).entries()
            B = (arb_mat([rates]) * self.branch_tangents[i]).entries()
        return Affine(total + largest_value(A, x) + largest_value(B, v), A, B)

    def _above(
        self,
        i: int,
        forms: tuple[list[Form], list[Form]],
        A: Numbers,
        B: Numbers,
        points: list[list[list[float]]],
    ) -> tuple[arb, Numbers, Numbers]:
        """Planes above a layer's products at given points: constants, and branches' factors."""
        products = self.chain.levels[i].products
        assert products is not None
        z, u = forms
        total = arb(0)
        slopes: list[Numbers] = [[], []]
        rates: list[Numbers] = [[], []]
        pairs = zip(products.left.tolist(), products.right.tolist(), A, B, strict=True)
        for n, (k, j, a, b) in enumerate(pairs):
            at = [(arb(f[n]), arb(g[n])) for f, g in points]
            terms = (a, z[k], z[j]), (b, u[k], z[j]), (b, z[k], u[j])
            for (c, p, q), (f, g) in zip(terms, at, strict=True):
                total += plane_error(c, left_of(p, q, f, g)) - c * f * g
            (f0, g0), (f1, g1), (f2, g2) = at
            slopes[0].append(a * g0 + b * g2)
            slopes[1].append(a * f0 + b * f1)
            rates[0].append(b * g1)
            rates[1].append(b * f2)
        return total, slopes[0] + slopes[1], rates[0] + rates[1]

    def _outputs(self, i: int, layer: Known, ends: list[tuple[float, float]]) -> Ranges:
        """Ranges of the outputs: of units by their lines, of products by corners."""
        n, some = len(layer.pieces), ends[: len(layer.pieces)]
        z = ranges_of(np.array([low for low, _ in some]), np.array([high for _, high in some]))
        slopes, (middle, reach) = layer.slopes[0], layer.rests[0]
        found = (
            [s * a + b for s, a, b in zip(slopes, z[0], middle, strict=False)],
            [abs(s) * a + b for s, a, b in zip(slopes, z[1], reach, strict=False)],
        )
        if self.chain.grows:
            pairs = zip(self.units[i], layer.pieces, strict=True)
            found = meet(found, unzipped(self._range(unit, pieces) for unit, pieces in pairs))
        if layer.forms is None:
            return found
        forms, _ = layer.forms
        corners = (times(forms[a].ends, forms[b].ends) for a, b in self._pairs(i))
        return _behind((found[0][:n], found[1][:n]), unzipped(map(around, corners)))

    def _range(self, unit: Unit, pieces: list[Piece]) -> Range:
        """The range of sigma, from its ends where it does not turn."""
        one, nothing = arb(1), arb(0)
        middle, reach = extremes(pieces, nothing, one, nothing, self.chain.plain)
        (low, high), kind = (pieces[0].ends[0], pieces[-1].ends[1]), unit.kind
        one_way = middle - reach >= 0 or middle + reach <= 0
        if kind.inside is not None and (low >= 0.0 or high <= 0.0):
            one_way = one_way or bool(kind.inside(np.array(low), np.array(high)))
        if not one_way:
            return extremes(pieces, one, nothing, nothing, self.chain.plain)
        ends = pieces[0].values[0], pieces[-1].values[1]
        return around((ends[0].min(ends[1]), ends[0].max(ends[1])))

    def _products(self, i: int, layer: Known, ends: list[tuple[float, float]]) -> Ranges:
        """Ranges of the outputs' tangents."""
        n = len(layer.pieces)
        found = _products((layer.d[0][:n], layer.d[1][:n]), (layer.u[0][:n], layer.u[1][:n]))
        if layer.forms is None:
            return found
        z, u = layer.forms
        sums = []
        for a, b in self._pairs(i):
            one, other = times(u[a].ends, z[b].ends), times(z[a].ends, u[b].ends)
            sums.append(around((one[0] + other[0], one[1] + other[1])))
        return _behind(found, unzipped(sums))

    def _pairs(self, i: int) -> list[tuple[int, int]]:
        """Rows of the factors of a layer's products."""
        products = self.chain.levels[i].products
        assert products is not None
        return list(zip(products.left.tolist(), products.right.tolist(), strict=True))

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


def at_least(found: Affine, least: arb, box: Boxes) -> tuple[Numbers, arb]:
    """Where an affine function that is above another one is not below `least`."""
    _, reach = ranges_of(box.low[0], box.high[0])
    return found.x, found.upper - least - spread(found.x, reach)


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


def _products(d: Ranges, u: Ranges) -> Ranges:
    """Ranges of ``sigma'(z) u``."""
    middle = [a * b for a, b in zip(d[0], u[0], strict=True)]
    pairs = zip(*d, *u, strict=True)
    return middle, [abs(a) * s + r * (abs(b) + s) for a, r, b, s in pairs]


def _behind(units: Ranges, products: Ranges) -> Ranges:
    return units[0] + products[0], units[1] + products[1]


def spread_out(level: Level, rows: arb_mat) -> arb_mat:
    """Columns of outputs for each branch."""
    if level.products is None:
        return rows
    which = level.products.output.tolist()
    return arb_mat([[rows[k, j] for j in which] for k in range(rows.nrows())])


def _taken(rows: arb_mat, which: list[int]) -> arb_mat:
    """Some rows."""
    if which == list(range(rows.nrows())):
        return rows
    return arb_mat([[rows[k, j] for j in range(rows.ncols())] for k in which])


def _exact(floats: Array, rest: Exact | None, part: int) -> arb_mat:
    """Rows without rounding."""
    found = matrix_of(floats)
    if rest is None:
        return found
    more = rest[part]
    return found + matrix_of(more if more.ndim == 2 else more[None])


def _dot(one: Numbers, other: Numbers) -> arb:
    return sum((a * b for a, b in zip(one, other, strict=True)), arb(0))
