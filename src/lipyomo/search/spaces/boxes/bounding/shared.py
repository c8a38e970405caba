"""Planes above bilinear terms, and above sums of products with a common factor r.

With a and b for the factors of their outputs and tangents,

    sum_k a_k z_k r + b_k (u_k r + z_k r') = P r + Q r',
    P = sum_k a_k z_k + b_k u_k,               Q = sum_k b_k z_k,

are two bilinear terms.  The ranges of P and Q are narrower than the sums of the ranges of their
terms, since much cancels.  Examples are a normalised row, which has a product for each entry, and
an attention weight that multiplies several values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends
from lipyomo.search.spaces.boxes.relaxing.errors import Errors, Form, errors_of
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, centred, spans, times
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.stage import Shared

Plane = tuple[FloatArray, FloatArray, FloatArray]
"""The coefficients of both signals, and a constant."""


class Located(NamedTuple):
    """Signals (N, P): their ranges and middles, and their values at one point of each box."""

    low: FloatArray
    high: FloatArray
    middle: FloatArray
    there: FloatArray | None

    @property
    def size(self) -> FloatArray:
        """The largest absolute values."""
        return np.maximum(np.abs(self.low), np.abs(self.high))


def level_where_lower(
    c: FloatArray, ends: Ends, planes: list[tuple[Plane, Located, Located]], gaps: list[FloatArray]
) -> tuple[list[Plane], list[FloatArray]]:
    """Replace planes above sums of one or two terms, and gaps, by constants where these are lower.

    `ends` are ranges of the sums; planes are compared at the points of `Located.there`.
    """
    with np.errstate(invalid="ignore"):  # infinite ranges and zero coefficients
        most = np.fmax(c * ends[0], c * ends[1])
        width = np.abs(c) * (ends[1] - ends[0])
    height = np.zeros_like(c)
    for (A, B, C), p, q in planes:
        assert p.there is not None
        assert q.there is not None
        height = height + A * p.there + B * q.there + C
    level = most < height
    share = 1.0 / len(planes)
    found = [
        (np.where(level, 0.0, A), np.where(level, 0.0, B), np.where(level, share * most, C))
        for (A, B, C), _, _ in planes
    ]
    return found, [np.where(level, share * width, gap) for gap in gaps]


def plane_above(c: FloatArray, p: Located, q: Located, errors: Errors) -> Plane:
    """Return planes ``A p + B q + C`` above ``c p q``, through the middles f and g of p and q.

    (p - f)(q - g) is within the errors, so that ``c p q`` is at most ``c (g p + f q - f g)`` plus
    the error.
    """
    g, f, e = q.middle, p.middle, np.where(c >= 0.0, errors.high, errors.low)
    return c * g, c * f, c * (e - f * g)


class Single(NamedTuple):
    """Planes above the P products of a layer, one by one.

    Attributes
    ----------
    slopes, rates : ndarray, shape (N, 2 P)
        Coefficients of z and u of the left rows, and then of the right ones.
    constants : ndarray, shape (N, P)
    of_z, of_u : ndarray, shape (N, 2 P)
        Gaps due to these rows: in total, and due to their tangents alone.
    """

    slopes: FloatArray
    rates: FloatArray
    constants: FloatArray
    of_z: FloatArray
    of_u: FloatArray


class Joint(NamedTuple):
    """Planes above the sums of groups of products, as coefficients of their p members and rows.

    Attributes
    ----------
    slopes, rates : (ndarray, ndarray), shapes (N, p) and (N, G)
        Coefficients of z and u of the members' other rows, and of the common rows.
    constant, size, height : ndarray, shape (N, G)
        Constants of the planes; sums of the sizes of all terms; and the planes at the worst point.
    gaps, of_tangents : (ndarray, ndarray), shape (N, p)
        The looseness due to each member's other row, and due to the common row with that member: in
        total, and by tangents alone.
    """

    slopes: tuple[FloatArray, FloatArray]
    rates: tuple[FloatArray, FloatArray]
    constant: FloatArray
    size: FloatArray
    height: FloatArray
    gaps: tuple[FloatArray, FloatArray]
    of_tangents: tuple[FloatArray, FloatArray]

    def instead(self, shared: Shared, heights: FloatArray, single: Single) -> Single:
        """Replace planes and gaps of single products by these where these are lower.

        Parameters
        ----------
        shared : Shared
        heights : ndarray, shape (N, P)
            The planes of all products of the layer at the worst point.
        single : Single
        """
        slopes, rates, constants, of_z, of_u = (part.copy() for part in single)
        some, count = shared.products, constants.shape[1]
        less = (self.height < shared.sums(heights[:, some]))[:, shared.group]
        first = np.zeros(some.size)
        first[shared.first] = 1.0
        ahead, behind = some + count * ~shared.second, some + count * shared.second
        for into, (members, rows) in (
            (slopes, (self.slopes[0], self.slopes[1][:, shared.group] * first)),
            (rates, (self.rates[0], self.rates[1][:, shared.group] * first)),
            (of_z, self.gaps),
            (of_u, self.of_tangents),
        ):
            into[:, ahead] = np.where(less, members, into[:, ahead])
            into[:, behind] = np.where(less, rows, into[:, behind])
        constant = self.constant[:, shared.group] * first
        constants[:, some] = np.where(less, constant, constants[:, some])
        return Single(slopes, rates, constants, of_z, of_u)


def jointly(
    shared: Shared,
    layer: Relaxed,
    factors: tuple[FloatArray, FloatArray],
    worst: tuple[FloatArray, FloatArray],
    inputs: Inputs,
    unit: float,
) -> Joint:
    """Compute planes of all groups, through the middles of all ranges.

    Parameters
    ----------
    shared : Shared
    layer : Relaxed
    factors : (ndarray, ndarray), shape (N, p)
        The factors of the members' outputs and tangents.
    worst : (ndarray, ndarray)
        x and v of each box where the objective is largest.
    inputs : Inputs
    unit : float
    """
    (a, b), group = factors, shared.group
    low = np.minimum(layer.low, layer.high)
    z = low[:, shared.others], layer.high[:, shared.others]
    u, radius = layer.tangent[:, shared.others], layer.tangent_radius[:, shared.others]
    away = 0.5 * np.abs(a) * (z[1] - z[0]), np.abs(b) * radius, 0.5 * np.abs(b) * (z[1] - z[0])
    pre, along = layer.pre.take(shared.others), layer.pre_tangent.take(shared.others)
    P = _sum([(a, pre), (b, along)], shared, inputs, unit)
    Q = _sum([(b, pre)], shared, inputs, unit)
    of_z, of_u, of_z_too = _spread(a, z), _spread(b, (u - radius, u + radius)), _spread(b, z)
    first = _form(P, (of_z[0] + of_u[0], of_z[1] + of_u[1]), shared, inputs, unit)
    second = _form(Q, of_z_too, shared, inputs, unit)
    rows = shared.rows
    ends = low[:, rows], layer.high[:, rows]
    r = Form.of(layer.pre.take(rows), *centred(*ends, unit))
    turn = Form.of(
        layer.pre_tangent.take(rows), layer.tangent[:, rows], layer.tangent_radius[:, rows]
    )
    one = np.ones((len(a), rows.size))
    found, heights, gaps = [], [], []
    for p, q in ((first, r), (second, turn)):
        errors = errors_of(p, q, inputs, unit)
        ranges = _located(p, worst), _located(q, worst)
        plane = plane_above(one, *ranges, errors)
        found.append((plane, ranges[1].size))
        assert ranges[0].there is not None
        assert ranges[1].there is not None
        heights.append(plane[0] * ranges[0].there + plane[1] * ranges[1].there + plane[2])
        gaps.append((errors.high - errors.low)[:, group])
    ((A, B, C), size), ((D, E, F), other) = found
    z_sizes, u_sizes = np.maximum(np.abs(z[0]), np.abs(z[1])), np.abs(u) + radius
    size = size * shared.sums(np.abs(a) * z_sizes + np.abs(b) * u_sizes)
    other = other * shared.sums(np.abs(b) * z_sizes)
    slopes = a * A[:, group] + b * D[:, group], B
    rates = b * A[:, group], E
    whole, rest = shared.sums(away[0] + away[1])[:, group], shared.sums(away[2])[:, group]
    shares = [
        np.divide(part, total, out=np.zeros_like(part), where=total > 0.0)
        for part, total in ((away[0], whole), (away[1], whole), (away[2], rest))
    ]
    by_z, by_u, by_turn = gaps[0] * shares[0], gaps[0] * shares[1], gaps[1] * shares[2]
    return Joint(
        slopes,
        rates,
        C + F,
        size + other,
        heights[0] + heights[1],
        (by_z + by_u + by_turn, by_z + by_u + by_turn),
        (by_u, by_turn),
    )


def _spread(c: FloatArray, ends: Ends) -> Ends:
    """Return ranges of multiples."""
    one, other = c * ends[0], c * ends[1]
    return np.minimum(one, other), np.maximum(one, other)


def _sum(
    terms: list[tuple[FloatArray, Affine]], shared: Shared, inputs: Inputs, unit: float
) -> Affine:
    """Sum terms over each group as functions of (x, v), covering the rounding of coefficients."""
    x: FloatArray | None = None
    v: FloatArray | None = None
    constant = np.zeros((len(terms[0][0]), shared.rows.size))
    radius, size = constant, constant
    for c, affine in terms:
        own = shared.sums(c[:, :, None] * affine.x)
        x = own if x is None else x + own
        sizes = times(np.abs(affine.x), inputs.x.size) + np.abs(affine.constant) + affine.radius
        if affine.v is not None:
            own = shared.sums(c[:, :, None] * affine.v)
            v = own if v is None else v + own
            sizes = sizes + times(np.abs(affine.v), inputs.v.size)
        constant = constant + shared.sums(c * affine.constant)
        radius = radius + shared.sums(np.abs(c) * affine.radius)
        size = size + shared.sums(np.abs(c) * sizes)
    assert x is not None
    return Affine(x, v, constant, radius + 4.0 * unit * size)


def _form(affine: Affine, terms: Ends, shared: Shared, inputs: Inputs, unit: float) -> Form:
    """Combine functions with their ranges, which are at most the sums of those of their terms."""
    sizes = 4.0 * unit * shared.sums(np.maximum(np.abs(terms[0]), np.abs(terms[1])))
    middle = affine.constant + times(affine.x, inputs.x.middle)
    down, up = spans(affine.x, inputs, unit)
    beside = affine.radius
    if affine.v is not None:
        middle = middle + times(affine.v, inputs.v.middle)
        beside = beside + times(np.abs(affine.v), inputs.v.radius)
    low = np.fmax(shared.sums(terms[0]) - sizes, middle - down - beside)
    high = np.fmin(shared.sums(terms[1]) + sizes, middle + up + beside)
    return Form.of(affine, *centred(low, np.maximum(low, high), unit))


def _located(form: Form, worst: tuple[FloatArray, FloatArray]) -> Located:
    """Return the range of a form, and its value at a point."""
    low, high = form.middle - form.radius, form.middle + form.radius
    there = form.constant + times(form.x, worst[0])
    if form.v is not None:
        there = there + times(form.v, worst[1])
    return Located(low, high, form.middle, np.clip(there, low, high))
