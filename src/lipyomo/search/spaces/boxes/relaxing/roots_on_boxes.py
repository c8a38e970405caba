"""Roots of sums of squares in the first layer, on boxes: functions of each root's own inputs.

If tokens are normalised one by one, ``s_k / sqrt(v)`` depends on a single token.  Then s, s', v and
v' are quadratic functions of its few entries (x, v), which is fast for any number of tokens; the e
of a function are those of its own root.  The part of a row behind such a norm that comes from one
token is again a single quotient, and so is its tangent,

    sum_k a_k o_k = p / sqrt(v),    p = sum_k a_k s_k,    and    (p' v - p v' / 2) / v**1.5,

so that cancellation in p is used.  Tokens have no inputs in common, so that ranges of such parts
add up to those of the row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.numerics.ranges import Ends, size
from lipyomo.search.spaces.boxes.quadratics.product_sums import SumsOfSignals
from lipyomo.search.spaces.boxes.quadratics.stacked import ENTRIES, Quadratics
from lipyomo.search.spaces.boxes.relaxing.inputs import Affine, Inputs, centred
from lipyomo.search.spaces.boxes.relaxing.quotients import (
    RootFunctions,
    common_range,
    over_powers,
    quadratic_of,
)
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxed
from lipyomo.search.spaces.boxes.structure.local_roots import Behind, LocalRoots


class RootsOnBoxes(NamedTuple):
    """The functions of local roots on boxes.

    Attributes
    ----------
    plan : LocalRoots
    functions : RootFunctions
    ends : (ndarray, ndarray), shape (N, g)
        The ranges of v.
    still : bool
        Whether directions are zero, so that tangents are not bounded.
    unit : float
        The rounding error of sums.
    """

    plan: LocalRoots
    functions: RootFunctions
    ends: Ends
    still: bool
    unit: float

    @np.errstate(all="ignore")  # an overflow gives no bound
    def narrowed(self, number: int, values: Ends, tangents: Ends) -> tuple[Ends, Ends]:
        """Tighten ranges of a layer's z, and middles and radii of its u, shapes (N, n)."""
        if number == 1:
            return _within(values, self.plan.roots.units, self.ends), tangents
        for behind in self.plan.behind:
            if behind.place == number:
                return self._narrowed(behind, values, tangents)
        return values, tangents

    def _narrowed(self, behind: Behind, values: Ends, tangents: Ends) -> tuple[Ends, Ends]:
        """Do the same for rows that are sums of quotients, by the sums of their parts' ranges."""
        which, row, alone, unit = behind.which, behind.row, behind.alone, self.unit
        middle, radius = tangents
        ends_of_u = middle - radius, middle + radius
        s, turn = (self._sums(part, behind) for part in self.functions[:2])
        own = RootFunctions(s, turn, *(part.take(behind.group) for part in self.functions[2:4]))
        ends = self.ends[0][:, behind.group], self.ends[1][:, behind.group]
        most = behind.sizes @ (1.0 / np.sqrt(self.plan.roots.weights))
        known = values[0][:, which], values[1][:, which]
        room = 8.0 * unit * (size(known) + behind.reach + np.add.reduceat(most, behind.starts))
        start = [
            np.where(alone, (end - behind.bias + sign * room)[:, row], sign * 2.0 * most)
            for end, sign in zip(known, (-1.0, 1.0), strict=True)
        ]
        parts = over_powers(own.s, own.v, ends, (start[0], start[1]), 0.5, True, unit)
        low, high = (np.add.reduceat(end, behind.starts, axis=1) for end in parts)
        values = _within(values, which, (low + behind.bias - room, high + behind.bias + room))
        if self.still:
            return values, tangents
        start = [
            np.where(alone, end[:, which[row]], sign * np.inf)
            for end, sign in zip(ends_of_u, (-1.0, 1.0), strict=True)
        ]
        parts = over_powers(own.turning(unit), own.v, ends, (start[0], start[1]), 1.5, False, unit)
        low, high = (np.add.reduceat(end, behind.starts, axis=1) for end in parts)
        lost = 8.0 * unit * np.add.reduceat(size(parts), behind.starts, axis=1)
        return values, centred(*_within(ends_of_u, which, (low - lost, high + lost)), unit)

    def _sums(self, signals: Quadratics, behind: Behind) -> Quadratics:
        """Return sums of s, or of s', for the parts of rows; covers the rounding of weights."""
        found, sizes = signals.sums(behind.weight), signals.size @ behind.sizes.T
        return replace(found, error=found.error + 4.0 * self.unit * sizes, size=sizes)


def roots_on_boxes(
    plan: LocalRoots, first: Relaxed, inputs: Inputs, unit: float
) -> RootsOnBoxes | None:
    """Return the functions on boxes, or None if they depend on too many entries.

    Parameters
    ----------
    plan : LocalRoots
    first : Relaxed
        The relaxation of the first layer.
    inputs : Inputs
    unit : float
        The rounding error of sums.
    """
    x, v, _ = inputs
    moving = bool(v.radius.any())
    count = plan.x.columns.shape[1] + moving * plan.v.columns.shape[1]
    if count > ENTRIES or len(x.middle) < len(v.middle):
        return None
    roots = plan.roots

    def own(affine: Affine) -> Quadratics:
        found = quadratic_of(affine.take(roots.squares), inputs, moving)
        d, linear = x.middle.shape[1], np.moveaxis(found.linear, 0, 2)
        parts = [plan.x.take(linear[..., :d])]
        if moving:
            parts.append(plan.v.take(linear[..., d:]))
        linear = np.concatenate(parts, axis=2)
        return Quadratics.straight(found.constant, linear, found.error, found.size)

    s, turn = own(first.pre), own(first.pre_tangent)
    rows = np.eye(roots.squares.size)
    both = SumsOfSignals(s, rows, s.error), SumsOfSignals(turn, rows, turn.error)
    convex = np.ones(roots.units.size, dtype=bool)
    functions = RootFunctions.of_signals(*both, roots, unit)
    low, high = functions.v.extremes(convex, unit)
    low = np.fmax(low, roots.least * (1.0 - 8.0 * unit))
    still = not (moving or bool(v.middle.any()))
    return RootsOnBoxes(plan, functions, (low, np.maximum(low, high)), still, unit)


def _within(ends: Ends, rows: IntArray, known: Ends) -> Ends:
    """Intersect some of the ranges with others."""
    low, high = ends[0].copy(), ends[1].copy()
    low[:, rows], high[:, rows] = common_range((low[:, rows], high[:, rows]), known)
    return low, high
