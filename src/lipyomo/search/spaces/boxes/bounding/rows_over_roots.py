"""Bounds of networks whose last hidden layer has rows of quotients by roots, in one step.

With ``o_k = s_k / sqrt(v)`` as in `relaxing/normalised.py`, a row of the layer after them is

    z = p / sqrt(v) + bias,    u = N / v**1.5,    N = p' v - p v' / 2,    p = sum_k w_k s_k.

If s and s' are known as functions of the inputs, so are p, N and v.  Then z and u are bounded as
quotients (`relaxing/quotients.py`), and the planes above the layer's units add up to one quotient
(`over_roots.py`).  To second order (`second_order.py`) there are products of deviations as well,
for which affine functions near z and u are sufficient.

Near the middles of boxes, quotients by powers of quadratic functions are expanded to quadratic
functions.  With ``v = m (1 + x)`` a quotient ``p / v**e`` is about

    p m**-e (1 - e x + e (e + 1) x**2 / 2),

of which the terms up to the second order are kept.  With f for their sum and r for the power, the
quotient is exactly f plus ``(p - f r) / r``, and this is of third order if r is replaced by its
Taylor polynomial of degree two.  The error of that polynomial is monotone over the range of v.

In a tail (`structure/tails.py`) the signals s are rows of one layer of units, or else affine
functions with errors, as the relaxation of the layers before gives them.  Units of a first layer
are parabolas of affine functions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.ranges import Ends, size
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.collapse import of_units, rounding_of
from lipyomo.search.spaces.boxes.bounding.over_roots import above_quotient
from lipyomo.search.spaces.boxes.bounding.second_order import units_to_second_order
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.quadratics.product_sums import SumsOfSignals, sums_of_products
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, products_of
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, centred
from lipyomo.search.spaces.boxes.relaxing.normalised import normalised, squares_of
from lipyomo.search.spaces.boxes.relaxing.quotients import (
    RootFunctions,
    common_range,
    over_powers,
    quadratic_of,
)
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation, Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Stage
from lipyomo.search.spaces.boxes.structure.tails import RowsOfSignals, Tail


@np.errstate(all="ignore")  # an overflow gives no bound
def root_functions(
    context: BoxContext, tail: Tail, known: Relaxation
) -> tuple[RootFunctions, tuple[SumsOfSignals, SumsOfSignals]]:
    """Compute s, s', v and v' of a tail on boxes, and s and s' as sums of signals.

    Parameters
    ----------
    context : BoxContext
        The context of the whole network.
    tail : Tail
    known : Relaxation
        The relaxation of the layers up to the squares, or of the first one.
    """
    unit, roots, inputs = context.unit, tail.roots, known.inputs
    if tail.first is not None:
        (h, t), first = _parabolas(known, unit), tail.first
        rows, signals = first.whole, (h.error, t.error)
        s, turn = first.sums(h).shifted(first.bias), first.sums(t)
        s = replace(s, size=s.size + first.reach)
    else:
        moving = bool(inputs.v.radius.any())
        s, turn = (
            quadratic_of(affine.take(roots.squares), inputs, moving)
            for affine in (known.layers[-1].pre, known.layers[-1].pre_tangent)
        )
        rows, signals = np.eye(roots.squares.size), (s.error, turn.error)
    both = SumsOfSignals.of(s, rows, signals[0]), SumsOfSignals.of(turn, rows, signals[1])
    return RootFunctions.of_signals(*both, roots, unit), both


def _parabolas(known: Relaxation, unit: float) -> tuple[Quadratics, Quadratics]:
    """Return the outputs of a first layer of units, and their tangents."""
    layer, inputs, stage = known.layers[0], known.inputs, known.context.stages[0]
    moving = bool(inputs.v.radius.any())
    z, u = (quadratic_of(affine, inputs, moving) for affine in (layer.pre, layer.pre_tangent))
    low, high = np.minimum(layer.low, layer.high), layer.high
    middle, one = np.broadcast_to(z.constant, low.shape), np.ones_like(low)
    h, rate = (
        _parabola(z, *stage.each("parabolas", *shares, low, high, middle), unit=unit)
        for shares in ((one, 0.0 * one), (0.0 * one, one))
    )
    if moving:
        return h, rate.multiplied(u, unit)
    t = rate.times(u.constant)  # directions are fixed, so that these are numbers
    error = t.error + (rate.size + rate.error) * u.error
    return h, replace(t, error=error, size=rate.size * u.size)


def _parabola(
    z: Quadratics,
    slope: FloatArray,
    k: FloatArray,
    under: FloatArray,
    over: FloatArray,
    *,
    unit: float,
) -> Quadratics:
    """Return units as parabolas around the middles of their affine z."""
    middle, radius = centred(under, over, unit)
    bend = np.abs(z.linear).sum(axis=0)
    away, steep = bend + z.error, np.abs(slope)
    return Quadratics(
        slope * z.constant + middle,
        slope * z.linear,
        0.5 * k * products_of(z.linear, z.linear),
        (radius + (steep + np.abs(k) * away) * z.error) * (1.0 + 8.0 * unit),
        steep * z.size + np.abs(middle) + radius + np.abs(k) * away * (away + z.size),
    )


@np.errstate(all="ignore")  # an overflow gives no bound
def expanded(
    p: Quadratics, v: Quadratics, ends: Ends, exponent: float, unit: float
) -> tuple[FloatArray, Quadratics]:
    """Return numbers (N, n) near ``p / v**exponent`` at the middles, and the quotients minus these.

    Parameters
    ----------
    p, v : Quadratics
        n functions each.
    ends : (ndarray, ndarray), shape (N, n)
        The range of v, positive.
    exponent : float
        0.5 or 1.5.
    unit : float
        The rounding error of sums.
    """
    at = np.clip(v.constant, *ends)
    inverse = at**-exponent
    k, x = p.constant * inverse, v.linear / at
    fall = exponent * inverse * p.linear
    bends = inverse * p.bends - exponent * k / at * v.bends
    bends += products_of(0.5 * exponent * (exponent + 1.0) * k * x - fall, x)
    linear, none = inverse * p.linear - exponent * k * x, np.zeros_like(k)
    sizes = np.abs(k) + np.abs(linear).sum(axis=0) + np.abs(bends).sum(axis=0)
    found = Quadratics(k, linear, bends, none, sizes)
    product = found.multiplied(_power(v, ends, at, exponent, unit), unit)
    left = p.plus(product.negative()).ends(unit)
    error = size(left) / ends[0] ** exponent
    error = error + 8.0 * unit * (sizes + error)
    return k, replace(found, constant=none, error=error)


def _power(v: Quadratics, ends: Ends, at: FloatArray, exponent: float, unit: float) -> Quadratics:
    """Return ``v**exponent`` as its Taylor polynomial about numbers in the ranges of v."""
    slope = exponent * at ** (exponent - 1.0)
    bend = 0.5 * exponent * (exponent - 1.0) * at ** (exponent - 2.0)
    away = np.zeros_like(at)
    for end in ends:
        shift, power = end - at, end**exponent
        terms = at**exponent, slope * shift, bend * shift * shift
        rounding = power + sum(np.abs(term) for term in terms)
        away = np.maximum(away, np.abs(power - sum(terms)) + 8.0 * unit * rounding)
    beside = v.shifted(-at)
    found = beside.times(slope).plus(beside.multiplied(beside, unit).times(bend))
    return replace(found.shifted(at**exponent), error=found.error + away)


class RowsOverRoots(NamedTuple):
    """The rows of the last layer on boxes.

    Attributes
    ----------
    tail : Tail
    stage : Stage
        The last one, with the bias of `Tail.rows`.
    inputs : Inputs
    unit : float
        The rounding error of sums.
    functions : RootFunctions
        s and s', and v and v' of all roots.
    ends : (ndarray, ndarray), shape (N, g)
        The ranges of v.
    own : RootFunctions
        p and p' of the rows, and v and v' of each row, or of all.
    sums : (SumsOfSignals, SumsOfSignals)
        p and p' as sums of signals.
    turning : Quadratics
        N of the rows.
    layer : Relaxed
    """

    tail: Tail
    stage: Stage
    inputs: Inputs
    unit: float
    functions: RootFunctions
    ends: Ends
    own: RootFunctions
    sums: tuple[SumsOfSignals, SumsOfSignals]
    turning: Quadratics
    layer: Relaxed

    def on(self, which: IntArray) -> RowsOverRoots:
        """Select some of the boxes."""
        x, v, _ = self.inputs
        return self._replace(
            inputs=Inputs(x.take(which), v.take(which), None),
            functions=self.functions.on(which),
            ends=(self.ends[0][which], self.ends[1][which]),
            own=self.own.on(which),
            sums=(self.sums[0].on(which), self.sums[1].on(which)),
            turning=self.turning.on(which),
            layer=self.layer.on(which),
        )

    @property
    def rises(self) -> tuple[FloatArray, FloatArray]:
        """Derivatives of z and u along e at the middles of boxes, (D, N, n)."""
        own, N = self.own, self.turning
        v = own.v.constant
        root, fall = np.sqrt(v), own.v.linear / v
        z, u = own.s.constant / root, N.constant / (v * root)
        return own.s.linear / root - 0.5 * z * fall, N.linear / (v * root) - 1.5 * u * fall

    @np.errstate(all="ignore")  # an overflow gives no bound
    def above(self, rows: FloatArray, errors: FloatArray | None) -> tuple[Above, FloatArray]:
        """Return affine functions above ``rows . t``, and the shares of the entries of e in gaps.

        Parameters
        ----------
        rows : ndarray, shape (N, n)
        errors : ndarray, shape (N, n), optional
            Bounds of their errors.
        """
        layer, own, (dz, du) = self.layer, self.own, self.rises
        rises = rows * (layer.rate * du + layer.bend[0] * layer.tangent * dz)
        corner = np.sign(rises.sum(axis=2))[:, :, None]
        root = np.sqrt(np.maximum(own.v.at(corner), self.ends[0][:, self.tail.group]))
        there = own.s.at(corner) / root + self.stage.bias, self.turning.at(corner) / root**3
        factors = np.zeros_like(rows), rows
        s, rate, constant, fuzz, gaps = of_units(self.stage, layer, factors, there, True, self.unit)
        fuzz = fuzz + rounding_of(self.stage, layer, errors)
        plane = self._summed(s, rows * rate, None).raised(constant + fuzz, fuzz)
        shares = (np.abs(part) / np.abs(part).sum(axis=0) for part in (dz, du))
        parts = (np.nan_to_num(p * g).sum(axis=2) for p, g in zip(shares, gaps, strict=True))
        return plane, np.asarray(sum(parts)).T

    @np.errstate(all="ignore")  # an overflow gives no bound
    def second(self, rows: FloatArray, errors: FloatArray | None) -> Above:
        """Return affine functions above the same, by quadratic ones."""
        layer, unit, bias, group = self.layer, self.unit, self.stage.bias, self.tail.group
        v = self.own.v, (self.ends[0][:, group], self.ends[1][:, group])
        along = layer.tangent - layer.tangent_radius, layer.tangent + layer.tangent_radius
        z, beside = expanded(self.own.s, *v, 0.5, unit)
        beside = replace(beside, error=beside.error + unit * (np.abs(z) + np.abs(bias)))
        u, turning = expanded(self.turning, *v, 1.5, unit)
        reach = np.maximum(np.maximum(along[1] - u, u - along[0]), 0.0) * (1.0 + unit)
        factors, middles = (np.zeros_like(rows), rows), (z + bias, u)
        terms, weights = units_to_second_order(self.stage, layer, factors, middles, reach)
        whole, each = (
            turning.times(weights[0]).plus(beside.times(weights[1])),
            np.eye(rows.shape[1]),
        )
        one, other = (SumsOfSignals(part, each, part.error) for part in (whole, beside))
        form = sums_of_products(one, other, np.ones((1, len(each))), unit)
        fuzz = terms.sizes + terms.error + np.abs(terms.constant)
        fuzz = 8.0 * unit * fuzz + rounding_of(self.stage, layer, errors)
        plane = self._summed(terms.slopes, terms.rates, form)
        return plane.raised(terms.constant + terms.error + fuzz, fuzz)

    def _summed(self, s: FloatArray, rates: FloatArray, form: Quadratics | None) -> Above:
        """Return affine functions above ``s . (z - bias) + rates . u`` plus a form."""
        (p, along), groups = self.sums, np.arange(self.tail.roots.units.size)
        whole = (self.tail.group == groups[:, None]).astype(np.float64)
        P = p.sums(s, whole).plus(along.sums(rates, whole))
        known = self.functions._replace(s=p.sums(rates, whole), turn=P)
        return above_quotient(known, self.ends, self.inputs, self.unit, form)


@np.errstate(all="ignore")  # an overflow gives no bound
def rows_over_roots(context: BoxContext, tail: Tail, known: Relaxation) -> RowsOverRoots:
    """Bound the rows of the last layer.

    The Cauchy-Schwarz inequality bounds |z - bias| and |u|, since ``sum_k c_k o_k**2 <= 1``, and
    the tangents of o are at most those of s over the root in the same norm.

    Parameters
    ----------
    context : BoxContext
    tail : Tail
    known : Relaxation
        See `root_functions`.
    """
    unit, last, roots, group = context.unit, context.stages[-1], tail.roots, tail.group
    functions, both = root_functions(context, tail, known)
    squares = functions.s.ends(unit), functions.turn.ends(unit)
    ends, convex = _ends_of_sums(tail, functions, squares[0], unit)
    rows, weight = tail.rows, tail.rows.whole
    p, along = (
        SumsOfSignals.of(rows.sums(one.functions), weight @ one.rows, one.errors) for one in both
    )
    own = functions._replace(s=p.functions, turn=along.functions).of(group)
    turning, within = own.turning(unit), (ends[0][:, group], ends[1][:, group])
    up, sizes = 1.0 + 8.0 * unit, np.abs(weight) + unit * rows.sizes
    limit = np.sqrt((sizes**2 / roots.weights).sum(axis=1)) * up
    limit = np.broadcast_to(limit, within[0].shape)
    steepest = (roots.weights * size(squares[1]) ** 2) @ roots.whole / ends[0]
    limits = limit, limit * np.sqrt(steepest)[:, group] * up
    z = over_powers(own.s, own.v, within, (-limit, limit), 0.5, convex, unit)
    quotients = normalised(roots, squares, ends, unit, functions, each=False)
    z = common_range(z, _summed_ranges(rows, quotients.values, limit, unit))
    known_u = _summed_ranges(rows, quotients.tangents, limits[1], unit)
    u = over_powers(turning, own.v, within, known_u, 1.5, False, unit)
    room = 8.0 * unit * (rows.reach + limit)
    low, high = z[0] + rows.bias - room, np.maximum(*z) + rows.bias + room
    tangent, radius = centred(u[0], np.maximum(*u), unit)
    one, none = np.ones_like(low), np.zeros((1, last.bias.size, known.inputs.x.middle.shape[1]))
    bend, under, over = last.each("lines", 0.0 * one, one, low, high)
    least, largest = last.each("slope_range", low, high)
    layer = Relaxed(
        low,
        high,
        tangent,
        radius,
        *centred(least, largest, unit),
        reach=limits[0] + rows.reach,
        pace=limits[1],
        pre=Affine(none, None, *centred(low, high, unit)),
        pre_tangent=Affine(none, None, tangent, radius),
        bend=(bend, *centred(under, over, unit)),
    )
    whole = tail, replace(last, bias=rows.bias), known.inputs, unit
    return RowsOverRoots(*whole, functions, ends, own, (p, along), turning, layer)


def _ends_of_sums(tail: Tail, functions: RootFunctions, s: Ends, unit: float) -> tuple[Ends, bool]:
    """Ranges of v, and whether s are affine, so that it is a sum of squares of such."""
    roots, v = tail.roots, functions.v
    none = np.zeros(v.constant.shape[1], dtype=bool)
    affine = not functions.s.bends.any()
    least, most = ((roots.weights * part) @ roots.whole + roots.least for part in squares_of(s))
    low, high = v.extremes(none | affine, unit)
    low = np.fmax(low, least * (1.0 - 8.0 * unit))
    high = np.fmin(high, most * (1.0 + 8.0 * unit))
    return (low, np.maximum(low, high)), affine


def _summed_ranges(rows: RowsOfSignals, ends: Ends, most: FloatArray, unit: float) -> Ends:
    """Return ranges of sums of signals, intersected with +- `most`."""
    middle, radius = centred(*ends, unit)
    weight, sizes = rows.whole.T, rows.sizes.T
    centre, away = middle @ weight, radius @ np.abs(weight)
    away = away + 4.0 * unit * ((np.abs(middle) + radius) @ sizes)
    return np.fmax(centre - away, -most), np.fmin(centre + away, most)
