"""Ranges of all entries of a Jacobian over a box, by bounding batches of boxes.

The bounded quantity is the largest *excess*: by how much an entry, or its negative, exceeds its
largest value known to be attained, in units of the entry's tolerance.  A box is closed once no
entry's excess is above a share of one.  Values at points that exceed it count as attained from then
on, for the remaining boxes.  A bound of the excess remains valid, since attained values only grow.
So all entries share ranges of pre-activations, patterns and tests of emptiness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lipyomo.analyses.maps.ends import Narrowing
from lipyomo.analyses.maps.measure import Measure
from lipyomo.analyses.maps.params import PARAMS, Params
from lipyomo.analyses.maps.pieces import Pieces
from lipyomo.analyses.maps.relu import narrow
from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Network
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.linear.gradient import gradient_entries
from lipyomo.relaxations.linear.layers import PhaseBatch


@dataclass(frozen=True, eq=False)
class KnownEntries:
    """Attained values of the entries of a Jacobian, ``rows . J T``.

    Attributes
    ----------
    attained : ndarray, shape (2, p, k)
        Largest attained values of the negatives of the entries, and of the entries.
    tolerance : ndarray, shape (p, k)
    """

    attained: FloatArray
    tolerance: FloatArray

    def excess(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the largest excess (n,) of entries with ranges (n, p, k), in tolerances."""
        over = np.maximum(high - self.attained[1], -low - self.attained[0]) / self.tolerance
        return np.asarray(over.max(axis=(1, 2)))

    def room(self, sizes: FloatArray) -> FloatArray:
        """Bound the rounding error (n,) of `excess`, for entries of sizes (n, p, k)."""
        terms = (sizes + np.abs(self.attained).max(axis=0)) / self.tolerance
        return np.asarray(gamma(4) * terms.max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class Excess(Measure):
    """The excess of the entries, as a `Measure`.

    Attributes
    ----------
    problem : LipschitzProblem
    rows : ndarray, shape (p, m)
        Functionals.
    known : KnownEntries
    enough : float
        Excess that closes a box.
    """

    problem: LipschitzProblem
    rows: FloatArray
    known: KnownEntries
    enough: float

    @cached_property
    def targets(self) -> Targets:
        """One target for each functional and each direction."""
        _, *_, m = self.problem.network.sizes
        return Targets.of(self.rows, m, self.problem.tangent_network.input_dim, "l1")

    def sizes(self, jacobians: FloatArray) -> FloatArray:
        """See `Measure`."""
        return self.known.excess(jacobians, jacobians)

    def errors(self, sizes: FloatArray, terms: int) -> FloatArray:
        """See `Measure`."""
        lost = gamma(terms) * (sizes / self.known.tolerance).max(axis=(1, 2))
        return np.asarray(lost + self.known.room(sizes))

    def weak(self, values: FloatArray, errors: FloatArray) -> BoolArray:
        """See `Measure`."""
        return np.asarray(errors > 0.25 * self.enough)

    def relaxed(self, phases: PhaseBatch, terms: int) -> FloatArray:
        """See `Measure`."""
        network: Network = self.problem.tangent_network
        ranges = [gradient_entries(network, phases, row) for row in self.rows]
        low, high = (np.stack(ends, axis=1) for ends in zip(*ranges, strict=True))
        room = self.known.room(np.maximum(np.abs(low), np.abs(high)))
        return self.known.excess(low, high) + room


def bound_entries(
    excess: Excess,
    low: FloatArray,
    high: FloatArray,
    clock: Clock,
    sample: Callable[[FloatArray], KnownEntries],
    params: Params = PARAMS,
) -> tuple[float, int]:
    """Bound the excess of all entries over the cells ``low <= x <= high``, both (n, d).

    Parameters
    ----------
    excess : Excess
    low, high : ndarray, shape (n, d)
        Cells that cover the domain.
    clock : Clock
    sample : callable
        Called with points (n, d) that may attain more; returns the attained values after these.
    params : Params, optional

    Returns
    -------
    above : float
        No entry exceeds its final attained value by more than this many tolerances.
    boxes : int
        Number of boxes that were bounded.
    """
    cells = Narrowing(low, high, params.slack, excess.enough)

    def learn(now: Pieces) -> Pieces:
        points = cells.found()
        if not len(points):
            return now
        return replace(now, measure=replace(excess, known=sample(points)))

    narrow(cells, Pieces(excess, params=params), low, high, clock, learn)
    return float(cells.ends.upper.max()), int(cells.spent.sum())
