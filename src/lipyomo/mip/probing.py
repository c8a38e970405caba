"""Probing: what follows from one unit being on, or off, before a solver sees the model.

Each undecided unit is put on either side in turn.  A side that no point of the cell has, or whose
bound does not exceed the value attained already, is excluded, and the unit is decided.  Otherwise
the two sides give bounds of the adjoint that arrives at the unit, one for each position of its
switch, which are what the switch's rows need (LipMIP, eq. 73).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.blocks.derivative import ChainLimits, derivative_rung
from lipyomo.blocks.lipschitz import functional_set
from lipyomo.blocks.switch import ArrivingBounds
from lipyomo.bounds import DerivativeBounds, LayerBounds, adjoint_bounds, preactivation_bounds
from lipyomo.mip.cells import Cell, gradient_size
from lipyomo.network import FloatArray
from lipyomo.phases import LEFT, OPEN, RIGHT, Phases, decide
from lipyomo.problem import LipschitzProblem
from lipyomo.run import Clock

MAX_ROUNDS = 3
"""Most passes over the undecided units."""

SHARE = 0.1
"""Largest share of the time that is left which probing may take."""

MOST_SECONDS = 20.0


def probed(problem: LipschitzProblem, cell: Cell, lower: float, clock: Clock) -> Cell:
    """The cell with the units decided that probing decides, and with adjoint bounds by switch.

    Parameters
    ----------
    problem : LipschitzProblem
        Reduced.
    cell : Cell
    lower : float
        Values up to this one need not stay in the cell.
    clock : Clock

    Returns
    -------
    Cell
        With `upper` at most `lower` if nothing better can be in it.
    """
    clock = clock.within(min(SHARE * clock.left, MOST_SECONDS))
    probe = _Probe(problem, cell, lower)
    for _ in range(MAX_ROUNDS):
        changed = False
        for i, phases in enumerate(probe.bounds.phases):
            for k in np.flatnonzero(phases == OPEN).tolist():
                if clock.expired:
                    return probe.cell()
                if probe.bounds.phases[i][k] == OPEN:
                    changed |= probe.unit(i, k)
                if probe.nothing_left:
                    return replace(cell, upper=min(cell.upper, lower))
        if not changed:
            break
    return probe.cell()


class _Probe:
    """What is known so far of a cell that is being probed."""

    def __init__(self, problem: LipschitzProblem, cell: Cell, lower: float) -> None:
        self._problem, self._cell, self._lower = problem, cell, lower
        self._rung = derivative_rung(cell.bounds.rung)
        self._functionals = functional_set(cell.norm, problem.network.output_dim)
        self.bounds = cell.bounds
        self.nothing_left = False
        hidden = problem.network.hidden
        self._sides: dict[int, list[tuple[FloatArray, FloatArray]]] = {
            side: [(np.full(h.units, -np.inf), np.full(h.units, np.inf)) for h in hidden]
            for side in (LEFT, RIGHT)
        }

    def unit(self, i: int, k: int) -> bool:
        """Probe both sides of one unit; True if that decided it."""
        possible = []
        for side in (LEFT, RIGHT):
            bounds = self._with(i, k, side)
            if bounds.empty:
                continue
            found = self._adjoints(bounds)
            low, high = self._sides[side][i]
            low[k] = max(low[k], found.lower[i][k])
            high[k] = min(high[k], found.upper[i][k])
            if gradient_size(found, self._problem) > self._lower:
                possible.append(bounds)
        if len(possible) == 2:
            return False
        if possible:
            self.bounds = possible[0]
        self.nothing_left = not possible
        return True

    def _with(self, i: int, k: int, side: int) -> LayerBounds:
        """Bounds with one unit held to one side, intersected with what is known."""
        phases = list(self.bounds.phases)
        phases[i] = phases[i].copy()
        phases[i][k] = side
        held = tuple(phases)
        found = preactivation_bounds(
            self._problem.network, self._cell.domain, held, rung=self._rung
        )
        return _intersection(self.bounds, found, held)

    def _adjoints(self, bounds: LayerBounds) -> DerivativeBounds:
        network = self._problem.network
        return adjoint_bounds(network, None, bounds, self._functionals, self._rung)

    def cell(self) -> Cell:
        """The cell with all that was found."""
        end = self._adjoints(self.bounds)
        plain = ChainLimits.of(end)
        layers = []
        for i, known in enumerate(plain.layers):
            off, on = self._sides[LEFT][i], self._sides[RIGHT][i]
            sides = [
                (np.maximum(known.lower, low), np.minimum(known.upper, high))
                for low, high in (on, off)
            ]
            (on_low, on_high), (off_low, off_high) = sides
            low, high = np.minimum(on_low, off_low), np.maximum(on_high, off_high)
            layers.append(ArrivingBounds(low, high, on_low, on_high, off_low, off_high))
        limits = ChainLimits(layers, plain.end_lower, plain.end_upper)
        upper = min(self._cell.upper, gradient_size(end, self._problem))
        return replace(self._cell, bounds=self.bounds, upper=upper, limits=limits)


def _intersection(known: LayerBounds, found: LayerBounds, phases: Phases) -> LayerBounds:
    """Both bounds at once, for the phases that `found` was computed for."""
    lower = [np.maximum(a, b) for a, b in zip(known.lower, found.lower, strict=True)]
    upper = [np.minimum(a, b) for a, b in zip(known.upper, found.upper, strict=True)]
    empty = found.empty or any((a > b).any() for a, b in zip(lower, upper, strict=True))
    upper = [np.maximum(a, b) for a, b in zip(lower, upper, strict=True)]
    merged = tuple(
        np.where(a == OPEN, b, a).astype(np.int8) for a, b in zip(phases, found.phases, strict=True)
    )
    return LayerBounds(lower, upper, known.rung, decide(merged, lower, upper), empty)
