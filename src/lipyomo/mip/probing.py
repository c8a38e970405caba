"""Probing: units fixed by semidefinite bounds, before a model is built.

The linear relaxation of a model treats each product of a switch and a tangent separately, and its
bound can be far above the semidefinite one of all products.  The latter bounds the constant, and
each unstable unit is held on either side in turn: a side whose bound does not exceed the attained
value is excluded, and the unit becomes stable.

The bound is not added to the model.  As a bound of the objective, or as cuts ``value <= U_0 + (U_1
- U_0) a`` with bounds of the two phases of a unit with switch a, it would make all weaker
relaxation values equal, so that solvers could not rank nodes and branching candidates.

All these bounds are proved from the weights, with rounding accounted for.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.numerics.rounding import gamma
from lipyomo.mip.cells import Cell, unstable_units
from lipyomo.mip.params import ENOUGH_UNITS, SECONDS, SHARE
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, decide, flat
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.linear import LayerBounds, preactivation_bounds
from lipyomo.relaxations.linear.derivative import derivative_relaxation
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.relaxations.semidefinite.choice import root_cost


def probed(problem: LipschitzProblem, cell: Cell, lower: float, clock: Clock) -> Cell:
    """Return the cell with units fixed by probing, repeatedly while that fixes some.

    Parameters
    ----------
    problem : LipschitzProblem
        The reduced problem.
    cell : Cell
    lower : float
        Cutoff: values up to this one may be excluded from the cell.
    clock : Clock

    Returns
    -------
    Cell
        With `upper` at most `lower` if the cell can be pruned.
    """
    part = clock.within(min(SHARE * clock.left, SECONDS))
    few = cell.bounds.unstable <= ENOUGH_UNITS
    bounder = None if few else CellBounder.affordable(problem, cell, part)
    if bounder is None:
        return cell
    bounds, changed = cell.bounds, True
    upper = bounder.upper(flat(bounds.phases), cell.upper)
    while changed:
        changed = False
        for i, k in unstable_units(bounds.phases):
            if part.expired or upper <= lower:
                return replace(cell, bounds=bounds, upper=upper)
            if bounds.phases[i][k] != OPEN:
                continue
            left, right = (_held(bounds.phases, i, k, side) for side in (LEFT, RIGHT))
            off, on = (bounder.upper(flat(phases), upper) for phases in (left, right))
            upper = min(upper, max(off, on))
            if min(off, on) <= lower < upper:
                bounds = _with(problem, cell, bounds, right if off <= lower else left)
                upper, changed = lower if bounds.empty else upper, True
    return replace(cell, bounds=bounds, upper=upper)


def _held(phases: Phases, i: int, k: int, side: int) -> Phases:
    """Return the phases with one unit fixed to one side."""
    own = phases[i].copy()
    own[k] = side
    return (*phases[:i], own, *phases[i + 1 :])


def _with(problem: LipschitzProblem, cell: Cell, known: LayerBounds, phases: Phases) -> LayerBounds:
    """Return bounds under some phases, intersected with the known ones."""
    relaxation = derivative_relaxation(known.relaxation)
    found = preactivation_bounds(problem.network, cell.domain, phases, relaxation)
    lower = [np.maximum(a, b) for a, b in zip(known.lower, found.lower, strict=True)]
    upper = [np.minimum(a, b) for a, b in zip(known.upper, found.upper, strict=True)]
    empty = found.empty or any((a > b).any() for a, b in zip(lower, upper, strict=True))
    upper = [np.maximum(a, b) for a, b in zip(lower, upper, strict=True)]
    return LayerBounds(lower, upper, known.relaxation, decide(found.phases, lower, upper), empty)


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
