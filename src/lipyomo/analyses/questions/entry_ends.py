"""Proved and attained ends of a Jacobian's entries, and tilted networks that bound them all.

The network ``h(x) = +-f(x) + M S x`` has the derivatives ``+-J_ij + M_ij``.  With M_ij equal to C
minus the largest known value of ``+-J_ij``, all of them are at most C unless an entry exceeds its
known value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.kept import Arrays
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.rounding import CLOSED, EQUAL, gamma
from lipyomo.networks.combined import affine_after, parallel
from lipyomo.networks.network import Layer, Network
from lipyomo.primal.regions.value import around, derivatives_at
from lipyomo.problems.norms import LinfOutput
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, tolerance_of
from lipyomo.problems.reductions.direct import product_rounding
from lipyomo.problems.result import Point, Status
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.gradient import gradient_ranges
from lipyomo.relaxations.linear.layers import with_slopes

End: TypeAlias = tuple[int, ...]
"""Index of an end: the entry's negative (0) or the entry (1), its row, and its column."""


@dataclass(frozen=True, eq=False)
class EntryEnds:
    """Known ends of the entries of ``rows . J``, along a problem's directions.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    proved, attained : ndarray, shape (2, p, k)
        Upper bounds, and attained values, of the entries' negatives and of the entries.
    lost : float
        Bound of rounding errors, to be added to bounds computed by other means.
    points : mapping of End to Point
        Points that attain the ends.
    """

    problem: LipschitzProblem
    rows: FloatArray
    proved: FloatArray
    attained: FloatArray
    lost: float
    points: Mapping[End, Point] = field(default_factory=dict)

    @classmethod
    def crude(cls, problem: LipschitzProblem, rows: FloatArray) -> EntryEnds:
        """Bound the entries by ranges of all units' slopes; nothing is attained yet."""
        small = problem.reduced.problem
        known = preactivation_bounds(small.network, small.domain)
        network, rounding = with_slopes(small.network, known), 0.0
        if small.directions is not None:
            size = float(np.abs(rows).max(initial=0.0))
            rounding = size * product_rounding(network, small.directions, LinfOutput())
            network = network.with_directions(small.directions)
        low, high = gradient_ranges(network, known.phases, rows)
        lost = problem.underflow + rounding
        lost = lost * (1 + 1e-12) if lost else 0.0
        proved = np.stack([-low, high]) + lost
        return cls(problem, rows, proved, np.full(proved.shape, -np.inf), lost)

    @cached_property
    def tolerance(self) -> FloatArray:
        """Width of each entry's ends that counts as exact, shape (p, k)."""
        pairs = zip(*(end.ravel().tolist() for end in self.attained), strict=True)
        return np.array([tolerance_of(*pair) for pair in pairs]).reshape(self.attained.shape[1:])

    @property
    def is_open(self) -> BoolArray:
        """Which ends are not exact yet, shape (2, p, k)."""
        return np.asarray(self.proved - self.attained > self.tolerance)

    @property
    def done(self) -> bool:
        """Whether all ends are exact."""
        return not self.is_open.any()

    @property
    def all_attained(self) -> bool:
        """Whether both ends of every entry have attained values."""
        return bool(np.isfinite(self.attained).all())

    def at(self, x: FloatArray) -> EntryEnds | None:
        """Add values attained at a point (d,) or a sum (2, d); None if it does not count."""
        found = derivatives_at(self.problem, x, self.rows)
        if found is None:
            return None
        values = np.stack([-found[1], found[0]])
        better, point = values > self.attained, Point.at(x)
        points = dict.fromkeys(map(tuple, np.argwhere(better).tolist()), point)
        attained = np.where(better, values, self.attained)
        return replace(self, attained=attained, points={**self.points, **points})

    def gained(self, before: EntryEnds) -> bool:
        """Return whether some attained value improved by more than 0.1 of its tolerance."""
        return bool((self.attained > before.attained + 0.1 * before.tolerance).any())

    def within(self, excess: float, tolerance: FloatArray) -> EntryEnds:
        """Tighten bounds, given that no entry exceeds its attained value by more than `excess`.

        The excess is in units of the tolerances (p, k).
        """
        room = excess * tolerance + self.lost
        above = self.attained + room
        above += gamma(4) * (np.abs(self.attained) + np.abs(room))
        return replace(self, proved=np.minimum(self.proved, above))

    def below(self, upper: float, offsets: FloatArray, reach: FloatArray) -> EntryEnds:
        """Tighten bounds, given that entries plus offsets (2, p, k) times reach are <= `upper`."""
        if not math.isfinite(upper):
            return self
        proved = self.proved.copy()
        for s, i, j in np.ndindex(*offsets.shape):
            offset = exact(float(offsets[s, i, j])) * exact(float(reach[j]))
            _, above = around(exact(upper) - offset)
            proved[s, i, j] = min(float(proved[s, i, j]), above)
        return replace(self, proved=proved)

    def encode(self) -> Arrays:
        """Encode as plain arrays."""
        points = [self.points[end] for end in sorted(self.points)]
        parts = [at.point if at.rest is not None else [at.x, 0.0 * at.x] for at in points]
        return {
            "attained": self.attained,
            "proved": self.proved,
            "points": np.array(parts).reshape(-1, 2, self.problem.network.input_dim),
        }

    def ranges(self, clock: Clock, nodes: int) -> list[tuple[Range, ...]]:
        """Return the ranges by row, for a search with this many nodes and a clock's time."""
        seconds, (_, rows, columns) = clock.seconds, self.proved.shape

        def of(i: int, j: int) -> Range:
            above, least = self.proved[:, i, j].tolist(), self.attained[:, i, j].tolist()
            low = (-above[0] + 0.0, -least[0] + 0.0)  # no negative zeros
            high = (least[1] + 0.0, above[1] + 0.0)
            points = self.points.get((0, i, j)), self.points.get((1, i, j))
            return Range(low, high, points, Status.EXACT, seconds, nodes).ended(clock)

        return [tuple(of(i, j) for j in range(columns)) for i in range(rows)]


def tilted(network: Network, rows: FloatArray, skip: FloatArray, scale: FloatArray) -> Network:
    """Return the network ``rows . f(x) + scale . skip . x``, exactly: x bypasses the units.

    Parameters
    ----------
    network : Network
    rows : ndarray, shape (p, m)
    skip : ndarray, shape (k, d)
        At most one entry per row, of size one.
    scale : ndarray, shape (p, k)
    """
    beside = Network([Layer(skip, np.zeros(len(skip)))])
    return affine_after(parallel(network, beside), np.hstack([rows, scale]))


@dataclass(frozen=True, eq=False)
class Tilt:
    """The question of a search of a tilted network.

    Attributes
    ----------
    offsets : ndarray, shape (2, p, k)
        M, for the negatives of the entries and for the entries.
    cutoff : float
        C.
    slack : float
        Relative distance at which a bound counts as met.
    """

    offsets: FloatArray
    cutoff: float
    slack: float

    def encode(self) -> Arrays:
        """Encode as plain arrays."""
        return {"offsets": self.offsets, "numbers": np.array([self.cutoff, self.slack])}

    @classmethod
    def decode(cls, arrays: Arrays) -> Tilt:
        """Restore what `encode` returned."""
        return cls(arrays["offsets"], *arrays["numbers"].tolist())


@dataclass(frozen=True, eq=False)
class TiltedEntries:
    """The entries of some rows along single inputs, for searches of tilted networks.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    skip : ndarray, shape (k, d)
        The input that each direction moves, with its sign.
    reach : ndarray, shape (k,)
        How far each direction moves its input.
    """

    problem: LipschitzProblem
    rows: FloatArray
    skip: FloatArray
    reach: FloatArray

    @classmethod
    def along(cls, problem: LipschitzProblem, steps: Matrix, rows: FloatArray) -> TiltedEntries:
        """Make the entries along the columns of `steps` (d, k).

        For a single column that moves several inputs, its input is the one that it moves farthest.

        Raises
        ------
        ProblemError
            If one of several directions moves more than one input, or two move the same.
        """
        T = sp.csc_array(steps)
        d, k = T.shape
        skip, reach, places = np.zeros((k, d)), np.zeros(k), set()
        for j in range(k):
            own = slice(T.indptr[j], T.indptr[j + 1])
            largest = np.abs(T.data[own]).argmax()
            place, entry = int(T.indices[own][largest]), float(T.data[own][largest])
            skip[j, place], reach[j] = np.sign(entry), abs(entry)
            places.add(place)
        if k > 1 and not ((np.diff(T.indptr) == 1).all() and len(places) == k):
            raise ProblemError(
                "entries of a Jacobian are told apart along single inputs.  Remedy: ask for one "
                "direction at a time, with derivative_range"
            )
        return cls(problem, rows, skip, reach)

    def tilt(self, ends: EntryEnds) -> Tilt:
        """Choose C and M, with ``attained + M reach = C`` up to rounding.

        Finished entries get offsets with which they stay below C.
        """
        attained, active = ends.attained, ends.is_open
        tolerance = float(ends.tolerance[active.any(axis=0)].min())
        known = np.where(np.isfinite(attained), attained, -ends.proved[::-1])
        widest = float((known.sum(axis=0) / 2.0).max())
        size = float(np.abs(known).max())
        C = max(1.01 * widest, 0.01 * size, 1e-200)
        middle = np.broadcast_to(known.sum(axis=0) / 2.0, known.shape)
        offsets = (np.where(active, C, middle) - known) / self.reach
        return Tilt(offsets, C, float(np.clip(0.5 * tolerance / C, EQUAL, CLOSED)))

    def joint(self, tilt: Tilt) -> LipschitzProblem:
        """Return the problem of the tilted network's largest derivative."""
        rows = np.concatenate([-self.rows, self.rows])
        network = tilted(self.problem.network, rows, self.skip, np.concatenate(list(tilt.offsets)))
        domain, at_fixed = self.problem.domain, self.problem.at_fixed
        if at_fixed.any():
            places, weights = np.abs(self.skip).argmax(axis=1), np.ones(network.input_dim)
            weights[places] = self.reach
            return LipschitzProblem(network, domain, "l1", "linf", wrt=places, weights=weights)
        directions = self.problem.directions
        return LipschitzProblem(network, domain, "l1", "linf", directions=directions)
