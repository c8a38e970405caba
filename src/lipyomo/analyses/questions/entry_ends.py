"""Proved and attained ends of a Jacobian's entries."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.kept import Arrays
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.rounding import gamma
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
