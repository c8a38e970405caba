"""Joint ranges of normalised rows and of their tangents, which stay bounded for small variances.

With v = sum_k c_k s_k**2 + least, o_k = s_k / sqrt(v) and w_k = v - c_k s_k**2, which is positive,

    o_k = s_k / sqrt(c_k s_k**2 + w_k)              rises in s_k, and falls in w_k in size,
    o_k' = (s_k' w_k / v - o_k q_k) / sqrt(v),      q_k = the sum of c_j o_j s_j' over all other j,
    v' = 2 q sqrt(v),    (1 / sqrt(v))' = -q / v,   q = the sum over all j.

By ``sum_k c_k o_k**2 <= 1`` and the inequality of Cauchy and Schwarz ``|q|`` and ``|q_k|`` are at
most the norms of the s' in their sums, sqrt(sum c s'**2), and the bracket of o_k' is at most the
norm of all s' times sqrt(w_k / (v c_k)).  Products of separate ranges would be too large by powers
of ``1 / sqrt(least)``.

Where s, v and v' are known as functions of the inputs, ``o_k = s_k / sqrt(v)`` and
``q = v' / (2 sqrt(v))`` have narrower ranges (`quotients.py`), the bracket is ``s_k' - o_k q``, and

    o_k' = (s_k' v - s_k v' / 2) / v**1.5,      (1 / sqrt(v))' = -(v' / 2) / v**1.5.

If s is affine, the numerator is quadratic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.ranges import Ends, range_product, size
from lipyomo.networks.normalised import Quotients, Roots
from lipyomo.search.spaces.boxes.relaxing.inputs import centred
from lipyomo.search.spaces.boxes.relaxing.quotients import (
    RootFunctions,
    common_range,
    over_powers,
)
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed


def ranges_of(roots: Roots, before: Relaxed) -> tuple[Ends, Ends]:
    """Return ranges of s and s', given the layer with the squares."""
    rows = roots.squares
    s = np.minimum(before.low, before.high)[:, rows], before.high[:, rows]
    centre, radius = before.tangent[:, rows], before.tangent_radius[:, rows]
    return s, (centre - radius, centre + radius)


class Normalised(NamedTuple):
    """Ranges of o and o' of squares (N, n), and of v' and (1 / sqrt(v))' of roots (N, g)."""

    values: Ends
    tangents: Ends
    sums: Ends
    roots: Ends

    def products(self, quotients: Quotients, count: int) -> tuple[Ends, Ends]:
        """Return ranges of a layer's products and tangents, (N, count); infinite if unknown."""
        found = []
        for ends in (self.values, self.tangents):
            sides = [end[:, quotients.squares] * quotients.scale for end in ends]
            low = np.full((len(sides[0]), count), -np.inf)
            high = np.full_like(low, np.inf)
            low[:, quotients.products] = np.minimum(*sides)
            high[:, quotients.products] = np.maximum(*sides)
            found.append((low, high))
        return found[0], found[1]

    def narrowing(self, roots: Roots, layer: Relaxed, unit: float) -> Relaxed:
        """Return the layer of the roots with the ranges of v' tightened."""
        u, radius = layer.tangent.copy(), layer.tangent_radius.copy()
        low = np.fmax((u - radius)[:, roots.units], self.sums[0])
        high = np.fmin((u + radius)[:, roots.units], self.sums[1])
        u[:, roots.units], radius[:, roots.units] = centred(low, np.maximum(low, high), unit)
        return layer._replace(tangent=u, tangent_radius=radius)


@np.errstate(all="ignore")  # an overflow gives no bound
def normalised(
    roots: Roots,
    squares: tuple[Ends, Ends],
    v: Ends,
    unit: float,
    functions: RootFunctions | None = None,
    each: bool = True,
) -> Normalised:
    """Bound quotients by roots.

    Parameters
    ----------
    roots : Roots
    squares : ((ndarray, ndarray), (ndarray, ndarray)), shape (N, n)
        Ranges of s and of s'.
    v : (ndarray, ndarray), shape (N, g)
        Ranges of the roots' arguments.
    unit : float
        The rounding error of sums.
    functions : RootFunctions, optional
    each : bool, optional
        Whether the functions are also used to tighten o and o' one by one.
    """
    c, group, (s, along) = roots.weights, roots.group, squares
    least, most = squares_of(s)
    least, most = c * least, c * most
    down, up = 1.0 - 8.0 * unit, 1.0 + 8.0 * unit
    total = (least @ roots.whole + roots.least) * down
    low, high = np.fmax(v[0], total), np.maximum(v[1], v[0])
    w_low = (least @ roots.others + roots.least[group]) * down
    w_high = (most @ roots.others + roots.least[group]) * up
    room = 8.0 * unit * (np.abs(v[1][:, group]) + most)
    w_low = np.fmax(w_low, low[:, group] - most - room)
    w_high = np.maximum(np.fmin(w_high, high[:, group] - least + room), w_low)
    limit = up / np.sqrt(c)
    o_low = s[0] / np.sqrt(c * s[0] * s[0] + np.where(s[0] >= 0.0, w_high, w_low))
    o_high = s[1] / np.sqrt(c * s[1] * s[1] + np.where(s[1] >= 0.0, w_low, w_high))
    o = (
        np.fmax(o_low - 8.0 * unit * np.abs(o_low), -limit),
        np.fmin(o_high + 8.0 * unit * np.abs(o_high), limit),
    )
    if functions is not None and each:
        own, ends = functions.of(group), (low[:, group], high[:, group])
        o = common_range(o, over_powers(own.s, own.v, ends, o, 0.5, True, unit))
    # q, q_k, and brackets
    terms = range_product(o, along)
    terms = c * terms[0], c * terms[1]
    largest = c * size(along) ** 2
    q = _sums(terms, roots.whole, largest, unit)
    rest = _sums(terms, roots.others, largest, unit)
    keep = w_low / (most + w_low) * down, np.minimum(w_high / (least + w_high) * up, 1.0)
    one, other = range_product(keep, along), range_product(o, rest)
    lost = 8.0 * unit * (size(one) + size(other))
    reach = np.sqrt(largest @ roots.whole)[:, group] * np.sqrt(keep[1] / c) * up
    bracket = (
        np.fmax(one[0] - other[1] - lost, -reach),
        np.fmin(one[1] - other[0] + lost, reach),
    )
    if functions is not None:
        half = functions.along.times(np.full((1, 1), 0.5))
        q = common_range(q, over_powers(half, functions.v, (low, high), q, 0.5, False, unit))
        other = range_product(o, (q[0][:, group], q[1][:, group]))
        lost = 8.0 * unit * (size(along) + size(other))
        whole = along[0] - other[1] - lost, along[1] - other[0] + lost
        bracket = common_range(bracket, whole)
    root = down / np.sqrt(high), up / np.sqrt(low)
    tangents = _wider(range_product((root[0][:, group], root[1][:, group]), bracket), unit)
    slope = _wider(range_product((root[0] * root[0] * down, root[1] * root[1] * up), q), unit)
    sums = range_product((np.sqrt(low) * down * 2.0, np.sqrt(high) * up * 2.0), q)
    if functions is not None and each:
        of_o = over_powers(own.turning(unit), own.v, ends, tangents, 1.5, False, unit)
        of_root = over_powers(half, functions.v, (low, high), slope, 1.5, False, unit)
        tangents, slope = common_range(tangents, of_o), common_range(slope, of_root)
    return Normalised(o, tangents, _wider(sums, unit), (-slope[1], -slope[0]))


def squares_of(s: Ends) -> Ends:
    """Return the range of squares."""
    least = np.maximum(np.maximum(s[0], -s[1]), 0.0)
    return least * least, size(s) ** 2


def _sums(terms: Ends, which: FloatArray, largest: FloatArray, unit: float) -> Ends:
    """Bound sums of terms ``c o s'``, where every ``c s'**2`` is at most `largest`."""
    sizes = size(terms) @ which
    reach = np.sqrt(largest @ which) * (1.0 + 8.0 * unit)
    low, high = (end @ which for end in terms)
    lost = 8.0 * unit * sizes
    return np.fmax(low - lost, -reach), np.fmin(high + lost, reach)


def _wider(ends: Ends, unit: float) -> Ends:
    """Widen ranges to cover the rounding of a few products."""
    room = 8.0 * unit * size(ends)
    return ends[0] - room, ends[1] + room
