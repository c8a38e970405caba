"""Probing: implications of fixing single units, before a model is built.

Each unstable unit is fixed to either phase in turn.  A phase that no point of the cell has, or
whose bound does not exceed the attained value, is excluded, and the unit becomes stable.
Otherwise the two phases give bounds of the adjoint that arrives at the unit, one for each value of
its switch, for the rows of the switch (LipMIP, eq. 73).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.mip.cells import Cell
from lipyomo.mip.params import ENOUGH_UNITS, SECONDS, SHARE
from lipyomo.mip.semidefinite import CellBounder, unstable_units
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, decide, flat
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear import (
    DerivativeBounds,
    LayerBounds,
    adjoint_bounds,
    preactivation_bounds,
)
from lipyomo.relaxations.linear.gradient import entry_norms
from lipyomo.relaxations.linear.limits import (
    ArrivingBounds,
    ChainLimits,
    derivative_relaxation,
    hull_of_functionals,
)


def probed(problem: LipschitzProblem, cell: Cell, lower: float, clock: Clock) -> Cell:
    """Return the cell with units fixed by probing, and adjoint bounds for each switch value.

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
    probe = _Probe(problem, cell, lower)
    _decided(probe, _half(clock), probe.unit)
    if not probe.nothing_left and probe.bounds.unstable > ENOUGH_UNITS:
        part = _half(clock)
        if _by_semidefinite_bounds(probe, part):
            _decided(probe, part, probe.unit)
    return probe.cell()


def _half(clock: Clock) -> Clock:
    """Return a clock for one half of probing."""
    return clock.within(min(SHARE * clock.left, SECONDS))


def _decided(probe: _Probe, clock: Clock, unit: Callable[[int, int], bool]) -> bool:
    """Probe all unstable units repeatedly while that fixes some; return True if it did."""
    decided, changed = False, True
    while changed:
        changed = False
        for i, k in unstable_units(probe.bounds.phases):
            if clock.expired or probe.nothing_left:
                return decided
            if probe.is_open(i, k):
                changed |= unit(i, k)
        decided |= changed
    return decided


def _by_semidefinite_bounds(probe: _Probe, clock: Clock) -> bool:
    """Probe all unstable units by semidefinite bounds; return True if that fixed any."""
    bounder = CellBounder.affordable(probe.problem, probe.whole, clock)
    if bounder is None:
        return False
    probe.drop_upper(bounder.upper(flat(probe.bounds.phases), probe.upper))

    def both_sides(i: int, k: int) -> bool:
        off = bounder.upper(flat(probe.held(i, k, LEFT)), probe.upper)
        on = bounder.upper(flat(probe.held(i, k, RIGHT)), probe.upper)
        return probe.learn(i, k, off, on)

    return _decided(probe, clock, both_sides)


class _Probe:
    """The current bounds of a cell that is probed."""

    def __init__(self, problem: LipschitzProblem, cell: Cell, lower: float) -> None:
        self.problem, self.whole, self._lower = problem, cell, lower
        self.upper = cell.upper
        self._relaxation = derivative_relaxation(cell.bounds.relaxation)
        self._functionals = hull_of_functionals(cell.norm, problem.network.output_dim)
        self.bounds = cell.bounds
        self._exhausted = False
        hidden = problem.network.hidden
        self._sides: dict[int, list[tuple[FloatArray, FloatArray]]] = {
            side: [(np.full(h.units, -np.inf), np.full(h.units, np.inf)) for h in hidden]
            for side in (LEFT, RIGHT)
        }

    def unit(self, i: int, k: int) -> bool:
        """Probe both phases of one unit; return True if that fixed it."""
        possible = []
        for side in (LEFT, RIGHT):
            bounds = self._with(i, k, side)
            if bounds.empty:
                continue
            found = self._adjoints(bounds)
            low, high = self._sides[side][i]
            low[k] = max(low[k], found.lower[i][k])
            high[k] = min(high[k], found.upper[i][k])
            if self._size(found) > self._lower:
                possible.append(bounds)
        if len(possible) == 2:
            return False
        if possible:
            self.bounds = possible[0]
        self._exhausted = not possible
        return True

    def is_open(self, i: int, k: int) -> bool:
        """Return whether a unit is unstable."""
        return bool(self.bounds.phases[i][k] == OPEN)

    @property
    def nothing_left(self) -> bool:
        """Whether the cell can be pruned: it has no value above the attained one."""
        return self._exhausted or self.upper <= self._lower

    def drop_upper(self, upper: float) -> None:
        """Update the upper bound of the cell."""
        self.upper = min(self.upper, upper)

    def learn(self, i: int, k: int, off: float, on: float) -> bool:
        """Use bounds of the cell for both phases of a unit; return True if they fix it."""
        self.drop_upper(max(off, on))
        if min(off, on) > self._lower or self.nothing_left:
            return False
        self.bounds = self._with(i, k, RIGHT if off <= self._lower else LEFT)
        self._exhausted = self.bounds.empty
        return True

    def held(self, i: int, k: int, side: int) -> Phases:
        """Return the phases with one unit fixed to one side."""
        phases = list(self.bounds.phases)
        phases[i] = phases[i].copy()
        phases[i][k] = side
        return tuple(phases)

    def _with(self, i: int, k: int, side: int) -> LayerBounds:
        """Return bounds with one unit fixed to one side, intersected with the known bounds."""
        held = self.held(i, k, side)
        found = preactivation_bounds(
            self.problem.network, self.whole.domain, held, relaxation=self._relaxation
        )
        return _intersection(self.bounds, found, held)

    def _adjoints(self, bounds: LayerBounds) -> DerivativeBounds:
        network = self.problem.tangent_network
        return adjoint_bounds(network, bounds, self._functionals, self._relaxation)

    def _size(self, found: DerivativeBounds) -> float:
        """Bound the gradient's norm by bounds of its entries."""
        return float(entry_norms(found.end_lower, found.end_upper, self.problem.norm))

    def cell(self) -> Cell:
        """Return the cell with all improved bounds."""
        if self.nothing_left:
            return replace(self.whole, upper=min(self.upper, self._lower))
        end = self._adjoints(self.bounds)
        plain = ChainLimits.of(end)
        layers = []
        for i, known in enumerate(plain.layers):
            off, on = self._sides[LEFT][i], self._sides[RIGHT][i]
            sides = [
                (np.maximum(known.lower, low), np.minimum(known.upper, high))
                for low, high in (on, off)
            ]
            layers.append(ArrivingBounds(*sides[0], *sides[1]))
        limits = ChainLimits(layers, plain.end_lower, plain.end_upper)
        upper = min(self.upper, self._size(end))
        return replace(self.whole, bounds=self.bounds, upper=upper, limits=limits)


def _intersection(known: LayerBounds, found: LayerBounds, phases: Phases) -> LayerBounds:
    """Intersect two bounds, for the phases for which `found` was computed."""
    lower = [np.maximum(a, b) for a, b in zip(known.lower, found.lower, strict=True)]
    upper = [np.minimum(a, b) for a, b in zip(known.upper, found.upper, strict=True)]
    empty = found.empty or any((a > b).any() for a, b in zip(lower, upper, strict=True))
    upper = [np.maximum(a, b) for a, b in zip(lower, upper, strict=True)]
    merged = tuple(
        np.where(a == OPEN, b, a).astype(np.int8) for a, b in zip(phases, found.phases, strict=True)
    )
    return LayerBounds(lower, upper, known.relaxation, decide(merged, lower, upper), empty)
