"""Semidefinite bounds of a cell, and of both phases of its unstable units.

The linear relaxation of a model treats each product of a switch and a tangent separately, and its
bound can be far above the semidefinite one of all products.  The latter bounds the constant, and
fixes units one phase of which cannot exceed the attained value.

It is not added to the model.  As a bound of the objective, or as cuts ``value <= U_0 + (U_1 - U_0)
a`` with bounds of the two phases of a unit with switch a, it would make all weaker relaxation
values equal, so that solvers could not rank nodes and branching candidates.

All these bounds are proved from the weights, with rounding accounted for.
"""

from __future__ import annotations

import math

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.mip.cells import Cell
from lipyomo.networks.phases import OPEN
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.relaxations.semidefinite.choice import root_cost


class CellBounder:
    """Proved upper bounds of a cell for any phases.

    Parameters
    ----------
    problem : LipschitzProblem
        The reduced (and scaled) problem.
    cell : Cell
    clock : Clock
        Once it has expired, `upper` returns its `limit`.
    """

    def __init__(self, problem: LipschitzProblem, cell: Cell, clock: Clock) -> None:
        self._clock = clock
        norms, along = (problem.norm, cell.norm), problem.directions
        part = LipschitzProblem(problem.network, cell.domain, *norms, directions=along)
        self.targets, along = targets_of(part), part.directions
        given = part.network, self.targets.functionals, part.domain
        self.system = UnitSystem(*given, directions=along)
        self._bounder = Bounder(self.system, self.targets)
        self._warm: dict[int, tuple[IntArray, FloatArray]] = {}

    @classmethod
    def affordable(cls, problem: LipschitzProblem, cell: Cell, clock: Clock) -> CellBounder | None:
        """Return a bounder; None if there are too many targets or a bound takes too long."""
        try:
            found = cls(problem, cell, clock)
        except LipyomoError:
            return None
        count = found.targets.count
        cost = root_cost(found.targets, found.system.tangents.input_dim, cell.bounds.unstable)
        fits = cost.fits and count * cost.full <= clock.left
        return found if fits and cell.bounds.unstable else None

    def upper(self, phases: FlatPhases, limit: float = math.inf) -> float:
        """Return an upper bound of all targets, at most `limit`.

        Parameters
        ----------
        phases : ndarray of int8, shape (N,)
        limit : float, optional
            A known upper bound.
        """
        form = self.system.form(phases)
        if not form.units.size:
            errors = self._bounder.value_errors
            room = 1.0 + 2.0 * gamma(form.jacobian.size)
            values = self.targets.exact(form.jacobian) * room + errors
            return min(limit, float(values.max(initial=0.0)))
        worst = 0.0
        for target in range(self.targets.count):
            if self._clock.expired or worst >= limit:
                return limit
            found = self._bounder.minimise(
                form, target, self._warm.get(target), stop=lambda: self._clock.expired
            )
            if found is None:
                return limit
            multipliers = found.state.multipliers
            self._warm.setdefault(target, (form.units, multipliers))
            worst = max(worst, self._bounder.prover.bound(form, target, multipliers))
        return min(limit, worst)


def unstable_units(phases: tuple[np.ndarray, ...]) -> list[tuple[int, int]]:
    """Return layer and index of each unstable unit."""
    return [
        (i, k) for i, layer in enumerate(phases) for k in np.flatnonzero(layer == OPEN).tolist()
    ]
