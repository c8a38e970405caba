"""Step-by-step solution of the programs of smooth networks, resumable at any step.

See `lipyomo.relaxations.semidefinite.curved_model` for the program, and
`lipyomo.relaxations.semidefinite.interior` for the steps.  Multipliers are feasible at every step,
except on the curves between their nodes, so a bound can be proved at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.curved_model import CurvedModel
from lipyomo.relaxations.semidefinite.curved_system import CurvedSystem
from lipyomo.relaxations.semidefinite.interior import Iterate, advanced, infeasibility
from lipyomo.relaxations.semidefinite.quadratic import least_gamma
from lipyomo.relaxations.semidefinite.verify import cholesky_or_none

TOLERANCE = 5e-3
"""Relative distance from the optimum at which to stop, as further steps gain little."""

LEAST_SHARE = 0.02
"""Smallest step of zeta towards the best zeta; if only less is feasible, zeta is kept."""

BETWEEN, EARLY = 3, 0.5
"""Steps between updates of zeta once the relative gap is below `EARLY`.  An update leads away from
the central path: updating at every step takes almost twice as many steps."""

MOST = 80
"""Limit of steps."""

ROOM = 0.85
"""Step length as a share of the largest feasible one.  Steps next to the boundary are short: with
0.97 up to twice as many are needed."""

BALANCED = 0.3
"""Share of the initial weights of nodes that is inversely proportional to their slacks; the rest is
uniform."""


class CurvedDescent:
    """State of the minimisation of the bound of one functional.

    Parameters
    ----------
    model : CurvedModel
    known : float
        A known bound, which scales the first zeta.

    Attributes
    ----------
    done : bool
        Whether no further step lowers the bound.
    seconds : float
        Estimated time of a step and a proof.
    """

    def __init__(self, model: CurvedModel, known: float) -> None:
        self._model, self._zeta = model, model.first(known)
        self._system = CurvedSystem(model.plain, model.curves)
        program = model.program(self._zeta)
        self._scale = float(np.abs(program.objective).sum(axis=1).max())
        self.done, self.seconds = not self._scale > 0.0, 0.0
        self._steps, self._gap, self._whole, self._beyond = 0, math.inf, True, 0.0
        at = None if self.done else self._first()
        self.done = at is None
        if at is not None:
            self._at = at

    def lowered(self, aim: float, late: Callable[[float], bool]) -> float:
        """Take one or more steps and return a proved bound.

        Parameters
        ----------
        aim : float
            Stop once the bound is at most this value.
        late : callable
            Given a number of seconds, whether fewer are left.

        Returns
        -------
        float
            Infinite if nothing was proved.
        """
        while not self.done:
            began = time.monotonic()
            self._step()
            self.seconds = max(self.seconds, 2.0 * (time.monotonic() - began))
            if self._value * self._scale + self._beyond <= aim or late(self.seconds):
                break
        return self._proved()

    @property
    def _value(self) -> float:
        """The scaled bound in floating point, with curves known at the nodes only."""
        return float(self._system.costs @ self._at.v)

    def _proved(self) -> float:
        """Return the bound that the current multipliers prove."""
        if not self._steps:
            return math.inf
        y, forms = self._system.multipliers(self._scale * self._at.v)
        bound = self._model.proved(self._zeta, y, forms)
        if math.isfinite(bound):
            self._beyond = bound - self._value * self._scale
        return bound

    @np.errstate(all="ignore")  # after an overflow there is no start
    def _first(self) -> Iterate | None:
        """Return a first iterate, with multipliers that make the matrix diagonally dominant.

        None if numbers are too large or too small, as slopes of saturated units are.
        """
        system, program = self._system, self._model.program(self._zeta)
        program = replace(program, objective=program.objective / self._scale)
        v = system.started(*self._model.started(program))
        try:
            gamma = least_gamma(system.combine(v) - program.objective)
        except np.linalg.LinAlgError:
            return None
        v[0] = 1.1 * abs(gamma) + 1e-3
        Z, slacks = system.combine(v) - program.objective, system.slacks(v)
        if not (np.isfinite(Z).all() and np.isfinite(slacks).all() and slacks.min() > 0.0):
            return None
        X = 0.5 * np.eye(len(Z))
        X[0, 0] = 1.0
        mu = float(np.sum(X * Z)) / len(Z)
        x = BALANCED * mu / slacks + (1.0 - BALANCED) / (self._model.curves[0].nodes.shape[1])
        own = len(program.equality) - np.count_nonzero(program.equality) + 1
        x[:own] = np.maximum(-system.traces(X)[system.signed], 0.1)
        return Iterate(v, Z, slacks, X, x)

    def _step(self) -> None:
        """Take one step and update zeta if it is due."""
        following = advanced(self._system, self._at, ROOM)
        self._steps += 1
        self.done = following is None or self._steps >= MOST
        if following is None:
            return
        self._at = following
        early = self._gap > EARLY * abs(self._value)
        at_minimum = self._steps % BETWEEN == 0 or early or not self._whole
        if at_minimum:
            self._renew()
        self._gap = self._at.gap
        close = at_minimum and self._gap <= TOLERANCE * abs(self._value)
        self.done |= close and infeasibility(self._system, self._at) <= 1e-4

    def _renew(self) -> None:
        """Move zeta to the best one for the current moments, or as far towards it as feasible."""
        best, share = self._model.best(self._at.X), 1.0
        while share > LEAST_SHARE:
            zeta = 1.0 / ((1.0 - share) / self._zeta + share / best)
            moved = self._with(zeta)
            if moved is not None:
                self._at, self._zeta = moved, zeta
                break
            share *= 0.5
        self._whole = share == 1.0

    def _with(self, zeta: FloatArray) -> Iterate | None:
        """Return the iterate with another zeta; None if it is not feasible."""
        at = self._at
        Z = self._system.combine(at.v) - self._model.program(zeta).objective / self._scale
        v = at.v
        if not np.isfinite(Z).all():
            return None
        if cholesky_or_none(Z) is None:
            if cholesky_or_none(Z[1:, 1:]) is None:
                return None
            more = least_gamma(Z) * (1.0 + 1e-6) + at.mu
            v = np.append(v[0] + more, v[1:])
            Z[0, 0] += more
            if cholesky_or_none(Z) is None:
                return None
        return replace(at, v=v, Z=Z)
