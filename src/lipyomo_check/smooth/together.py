"""Products of a layer that have a factor r in common: together they are two products of sums.

With a_k and b_k, what the outputs ``z_k r`` and tangents ``u_k r + z_k r'`` are multiplied by,

    sum_k a_k z_k r + b_k (u_k r + z_k r') = P r + Q r',
    P = sum_k a_k z_k + b_k u_k,    Q = sum_k b_k z_k.

P and Q are affine functions of (x, v) with errors, as all rows are; each of the two products lies
below a plane, as in `factors`.  Much of the sums cancels, so that their ranges are narrower than
all of those of their terms: entries of one row, all of which are divided by its root, or of values
with one weight.  Of each group the planes count, its own or those of its members, whose sum is less
at the point at which planes are to be low.

Sums have at most as many terms as a layer has branches, which `bound` counts in its width.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from lipyomo_check.smooth.boxes import Ball, Rows
from lipyomo_check.smooth.common import Common
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.factors import Above, Form, Scope, given_plane, left_between, plane
from lipyomo_check.smooth.grouped import ball_around
from lipyomo_check.smooth.kind import Bools

Point = tuple[Array, Array]
"""z and u of a layer's rows, (N, n)."""


class Together(NamedTuple):
    """The rows of groups and their ranges.

    Attributes
    ----------
    common : Common
    z, u : Form
        Of the members' other factors.
    row_z, row_u : Form
        Of the rows in common.
    gamma : float
        The share that rounding takes.
    """

    common: Common
    z: Form
    u: Form
    row_z: Form
    row_u: Form
    gamma: float

    @classmethod
    def of(
        cls, common: Common, z: tuple[Rows, Ball], u: tuple[Rows, Ball], scope: Scope
    ) -> Together:
        """Make them from a layer's rows and their ranges."""
        others, rows = common.others, common.rows
        return cls(
            common,
            Form.of(z[0], others, z[1], scope),
            Form.of(u[0], others, u[1], scope),
            Form.of(z[0], rows, z[1], scope),
            Form.of(u[0], rows, u[1], scope),
            scope.gamma,
        )

    def sum(self, terms: Sequence[tuple[Array, Form]]) -> Form:
        """Return sums over the members of each group, of multiples of their forms."""
        turn, centre, away, size, low, high = (np.zeros(1) for _ in range(6))
        for c, form in terms:
            large = np.abs(c)
            own, reach = c * form.middle, large * form.radius
            turn = turn + self.common.sums(c[:, :, None] * form.turn)
            centre = centre + self.common.sums(own + c * form.offset)
            away = away + self.common.sums(large * form.away)
            size = size + self.common.sums(large * (form.size + form.radius))
            low, high = low + self.common.sums(own - reach), high + self.common.sums(own + reach)
        span, room = np.abs(turn).sum(axis=2), self.gamma * size
        low = np.fmax(low, centre - span - away) - room
        high = np.fmin(high, centre + span + away) + room
        middle, radius = ball_around(low, np.maximum(low, high))
        return Form(turn, centre - middle, away, size + np.abs(middle), middle, radius)

    def gaps(
        self, factors: tuple[Array, Array], widths: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Return the widths of P r and Q r' for z and for u of members' other rows and of r."""
        common, (a, b) = self.common, factors
        of_z, of_u, of_r = np.abs(a) * self.z.radius, np.abs(b) * self.u.radius, np.abs(b)
        of_r = of_r * self.z.radius
        whole, other = common.sums(of_z + of_u), common.sums(of_r)
        one, two = (
            np.where(total > 0.0, width / np.where(total > 0.0, total, 1.0), 0.0)[:, common.group]
            for width, total in zip(widths, (whole, other), strict=True)
        )
        return (one * of_z + two * of_r, widths[0]), (one * of_u, widths[1])


def together(
    known: Together,
    single: Above,
    factors: tuple[Array, Array],
    sizes: tuple[Array, Array],
    point: Point,
    located: bool,
    chosen: Array | None = None,
) -> tuple[Above, Array]:
    """Return planes of groups in the places of their members', where they are lower.

    Parameters
    ----------
    known : Together
    single : Above
        Planes of all products.
    factors : (ndarray, ndarray), shape (N, P)
        What outputs and tangents of all products are multiplied by.
    sizes : (ndarray, ndarray), shape (N, n)
        Of z and u of all rows.
    point : (ndarray, ndarray), shape (N, n)
        z and u of all rows, where planes are compared.
    located : bool
        Whether planes are to be low there, and not only near the middles.
    chosen : ndarray, optional
        What is returned, of any planes.

    Returns
    -------
    (Above, ndarray)
        The planes; and of groups (N, 5, G) f and g of P r, those of Q r', and one where they count.
    """
    common, gamma = known.common, known.gamma
    a, b = (part[:, common.products] * common.scale for part in factors)
    (z, u), (r, turn) = (
        tuple(part[:, rows] for part in point) for rows in (common.others, common.rows)
    )
    P, Q = known.sum([(a, known.z), (b, known.u)]), known.sum([(b, known.z)])
    there = (common.sums(a * z + b * u), r), (common.sums(b * z), turn)
    one, found, widths = np.ones_like(r), [], []
    pairs = zip((P, Q), (known.row_z, known.row_u), there, strict=True)
    for k, (p, q, at) in enumerate(pairs):
        left = left_between(p, q, gamma)
        middles, ends = (p.middle, q.middle), (p.ends, q.ends)
        if chosen is None:
            found.append(plane(one, middles, ends, left, at if located else None))
        else:
            found.append(given_plane(one, p, q, chosen[:, 2 * k], chosen[:, 2 * k + 1]))
        widths.append(left[1] - left[0])
    (f, g, e), (F, G, E) = found
    group = common.group
    slopes = a * g[:, group] + b * G[:, group], f
    rates = b * g[:, group], F
    most = (e - f * g) + (E - F * G)
    own, of_u = (part[:, common.others] for part in sizes)
    s, t = (part[:, common.rows] for part in sizes)
    size = np.abs(e) + np.abs(E) + np.abs(f) * (np.abs(g) + s) + np.abs(F) * (np.abs(G) + t)
    size = size + np.abs(g) * common.sums(np.abs(a) * own + np.abs(b) * of_u)
    size = size + np.abs(G) * common.sums(np.abs(b) * own)
    gaps = known.gaps((a, b), (widths[0] / 2.0, widths[1] / 2.0))
    height = common.sums(slopes[0] * z + rates[0] * u) + f * r + F * turn + most
    less = height < _height(common, single, point) if chosen is None else chosen[:, 4] > 0.0
    members, outputs = partial(_members, common, less), partial(_outputs, common, less)
    planes = Above(
        members(single.slopes, slopes),
        members(single.rates, rates),
        outputs(single.most, most),
        outputs(single.size, size),
        members(single.gaps, gaps[0]),
        members(single.tangent_gaps, gaps[1]),
        single.points,
    )
    return planes, np.stack([f, g, F, G, 1.0 * less], axis=1)


def _members(common: Common, less: Bools, usual: Array, own: tuple[Array, Array]) -> Array:
    """Replace numbers of branches: of members' other rows (N, p), and of rows in common (N, G)."""
    others, rows = common.branches(usual.shape[1] // 2)
    into, which = usual.copy(), less[:, common.group]
    into[:, others] = np.where(which, own[0], usual[:, others])
    into[:, rows] = np.where(which, _of_first(common, own[1]), usual[:, rows])
    return into


def _outputs(common: Common, less: Bools, usual: Array, own: Array) -> Array:
    """Replace numbers of outputs by those of groups (N, G)."""
    into, some = usual.copy(), common.products
    into[:, some] = np.where(less[:, common.group], _of_first(common, own), usual[:, some])
    return into


def _of_first(common: Common, own: Array) -> Array:
    """Return numbers of groups for their first members, and zeros for the others."""
    first = np.zeros(common.products.size)
    first[common.first] = 1.0
    return own[:, common.group] * first


def _height(common: Common, single: Above, point: Point) -> Array:
    """Return sums of members' own planes at a point."""
    others, rows = common.branches(single.most.shape[1])
    height = single.most[:, common.products]
    for part, at in ((single.slopes, point[0]), (single.rates, point[1])):
        height = height + part[:, others] * at[:, common.others]
        height = height + part[:, rows] * at[:, common.rows][:, common.group] * common.scale
    return common.sums(height)
