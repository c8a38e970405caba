"""The bound of an affine function on the part of a box that lies in half-spaces.

Where ``g(x) = level + a . (x - centre) >= 0`` holds, any multiple of g may be added to an upper
function: it stays one, and the least maximum over the box is found among multiples.  Half-spaces
are phases of units, the rows of the domain, and tangents of its ball.  One more is what a
box inherits; of that, ranges of pre-activations have multiples as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo_check.parts import Domain
from lipyomo_check.smooth.balls import alike
from lipyomo_check.smooth.boxes import Boxes, Rows
from lipyomo_check.smooth.elementary import ULP, Array

UNDERFLOW = 1e-220
"""Larger than the error of a sum by underflow."""


class Multiple(NamedTuple):
    """What was added of one half-space: multiples (N,), and its rows (N, d) if they were chosen.

    Both are None where it cuts through none of the boxes.
    """

    mu: Array | None = None
    rows: Array | None = None

    def part(self, which: npt.NDArray[np.int64]) -> Multiple:
        """Select those of some boxes."""
        return Multiple(*(None if side is None else side[which] for side in self))


class Above(NamedTuple):
    """Upper functions of N boxes: their maxima (N,), and coefficients of x (N, d).

    `multiples` are those that were added, of all half-spaces in their order; those that are to be
    added may be `given`.
    """

    upper: Array
    x: Array
    multiples: tuple[Multiple, ...] = ()
    given: Sequence[Multiple] | None = None

    @property
    def following(self) -> Multiple:
        """What is given of the half-space that is next, in the numbers of these functions."""
        assert self.given is not None
        one = self.given[len(self.multiples)]
        return Multiple(*(None if side is None else alike(side, self.x) for side in one))

    def without(self) -> Above:
        """Do the same, with a half-space that cuts through none of the boxes."""
        return self._replace(multiples=(*self.multiples, Multiple()))


class HalfSpaces(NamedTuple):
    """``level + a . (x - centre) >= 0`` for some of the boxes.

    `size` is the sum of absolute values of the terms that `level` was added up from.
    """

    which: npt.NDArray[np.int64]
    a: Array
    level: Array
    size: Array


def confined(domain: Domain, found: Above, centre: Array, reach: Array) -> Above:
    """Return upper functions with multiples of the domain's rows, and of tangents of its ball."""
    for row, b in zip(domain.A, domain.b, strict=True):
        a, size = -np.array(row), np.abs(row)
        level = centre @ a + b
        which = np.flatnonzero(level < reach @ size)
        terms = np.abs(centre[which]) @ size + abs(b)
        rows = np.broadcast_to(a, (which.size, a.size))
        found = with_multiples(found, HalfSpaces(which, rows, level[which], terms), reach)
    if domain.ball is None:
        return found
    _, point, radius = domain.ball
    for corner in (True, False):
        if found.given is None:
            normal = normals(domain, found.x, centre, reach, corner)
        elif (chosen := found.following.rows) is not None:
            normal = chosen
        else:
            found = found.without()
            continue
        size = np.abs(normal).max(axis=1)
        if domain.ball[0] == "l2":
            size = np.sqrt((normal * normal).sum(axis=1))
        level = radius * size - (normal * (centre - point)).sum(axis=1)
        which = np.flatnonzero(level < (np.abs(normal) * reach).sum(axis=1))
        n, gap = normal[which], np.abs(centre[which]) + np.abs(point)
        terms = radius * size[which] + (np.abs(n) * gap).sum(axis=1)
        found = with_multiples(found, HalfSpaces(which, -n, level[which], terms), reach, normal)
    return found


def normals(domain: Domain, x: Array, centre: Array, reach: Array, corner: bool) -> Array:
    """Return normals of tangents of the ball.

    They point to the corner of each box where its upper function is largest, or to its centre: any
    normals would do.
    """
    assert domain.ball is not None
    norm, point, _ = domain.ball
    gap = centre + np.sign(x) * reach * corner - point
    if norm == "l1":
        return np.where(gap >= 0, 1.0, -1.0)
    normal: Array = gap / np.maximum(np.abs(gap).max(axis=1, keepdims=True), 1e-300)
    return normal


def inherited(rise: Array, least: Array, centre: Array, reach: Array) -> HalfSpaces:
    """Return ``rise . x >= least``, for those of the boxes that it cuts through."""
    level = (rise * centre).sum(axis=1) - least
    which = np.flatnonzero(level < (np.abs(rise) * reach).sum(axis=1))
    size = (np.abs(rise) * np.abs(centre)).sum(axis=1) + np.abs(least)
    return HalfSpaces(which, rise[which], level[which], size[which])


def narrowed(
    x: Array, ends: tuple[Array, Array], space: HalfSpaces, reach: Array
) -> tuple[Array, Array]:
    """Return ends (N, n) of ranges within a half-space, of functions with coefficients x (N, n, d).

    The given ends are those over the whole boxes.  Any multiples are sound.  If entries of x and of
    a are like random numbers, those of x turn first whose ratio to a is large, and the number of
    ratios falls like an exponential; so the logarithm of the share that is left gives good ones.
    """
    which, a, level, level_size = space
    if not which.size:
        return ends
    reach = reach[which]
    scaled, a = x[which] * reach[:, None], a * reach
    size, turn = np.abs(scaled).sum(axis=2), np.abs(a).sum(axis=1)
    some = np.where(turn > 0, turn, 1.0)
    left = np.clip(0.5 + 0.5 * level / some, ULP, 1.0)
    mu = size * (-np.log(left) / some)[:, None]
    mass = size + mu * (level_size + turn)[:, None] + np.maximum(*map(np.abs, ends))[which]
    room = (a.shape[1] + 16) * 2.0**-50 * mass + mu * UNDERFLOW
    multiples = mu[:, :, None] * a[:, None]
    found = ends[0].copy(), ends[1].copy()
    for end, sign in zip(found, (-1.0, 1.0), strict=True):
        over = np.abs(scaled + sign * multiples).sum(axis=2) + mu * level[:, None] + room
        end[which] -= sign * np.fmax(size - over, 0.0)
    return found


def best_multiple(x: Array, a: Array, level: Array, reach: Array) -> Array:
    """Return the multiple mu >= 0 for which ``x + mu a`` has about the least bound."""
    turn = np.abs(a) * reach
    with np.errstate(divide="ignore", invalid="ignore"):
        where = np.where(x * a < 0, -x / a, np.inf)
    order = np.argsort(where, axis=1)
    where = np.take_along_axis(where, order, axis=1)
    rise = level + np.where(x * a < 0, -turn, turn).sum(axis=1)
    rises = rise[:, None] + 2.0 * np.cumsum(np.take_along_axis(turn, order, axis=1), axis=1)
    first = np.argmax(rises >= 0, axis=1)
    mu = np.take_along_axis(where, first[:, None], axis=1)[:, 0]
    return np.where((rise < 0) & np.isfinite(mu), mu, 0.0)


def with_multiples(
    found: Above, spaces: HalfSpaces, reach: Array, chosen: Array | None = None
) -> Above:
    """Return the least bounds of ``f + mu g`` for mu >= 0; keep `chosen` rows as well.

    As a function of mu a bound is convex and piecewise linear; its minimum is where an entry of
    ``x + mu a`` vanishes, or at 0.  Whatever mu is, the bound is computed with room for rounding.
    """
    which, a, level, level_size = spaces
    given = None if found.given is None else found.following.mu
    if not which.size or (found.given is not None and given is None):
        return found.without()
    upper, x, reach = found.upper[which], found.x[which], reach[which]
    size = (np.abs(x) * reach).sum(axis=1)
    turn = np.abs(a) * reach
    mu = best_multiple(x, a, level, reach) if given is None else given[which]
    new = x + mu[:, None] * a
    parts = upper - size, mu * level, (np.abs(new) * reach).sum(axis=1)
    mass = np.abs(upper) + size + mu * (level_size + turn.sum(axis=1)) + parts[2]
    room = (x.shape[1] + 16) * 2.0**-50 * mass + mu * UNDERFLOW
    bound = parts[0] + parts[1] + parts[2] + room
    better = bound < upper if given is None else mu > 0.0
    all_upper, all_x, multiple = found.upper.copy(), found.x.copy(), np.zeros_like(found.upper)
    all_upper[which] = np.where(better, bound, upper)
    all_x[which] = np.where(better[:, None], new, x)
    multiple[which] = np.where(better, mu, 0.0)
    multiples = *found.multiples, Multiple(multiple, chosen)
    return Above(all_upper, all_x, multiples, found.given)


def by_phases(
    broken: Sequence[tuple[int, int]],
    found: Above,
    rows: list[tuple[Rows, Rows]],
    reach: Array,
    boxes: Boxes,
) -> Above:
    """Do the same upper functions with multiples of those of phases that cut through the boxes.

    In a phase ``z <= t`` of a unit with an affine lower function ``a . x + g`` the sum
    ``t - a . x - g`` is not negative, and any multiple may be added; ``z >= t`` likewise.
    """
    for n, (i, k) in enumerate(broken):
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
