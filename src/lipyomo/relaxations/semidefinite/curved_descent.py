"""Programs of smooth networks solved step by step, each as far as it is asked to.

See `lipyomo.relaxations.semidefinite.curved_model` for the program, and
`lipyomo.relaxations.semidefinite.interior` for the steps.  Multipliers are feasible at every step,
but for what curves are between their nodes, so that bounds may be proved at any time.
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
"""Relative distance from the optimum at which to stop: the last steps gain ever less."""

LEAST_SHARE = 0.02
"""Zeta that have to be mixed with less of the best ones to be feasible stay as they are."""

BETWEEN, EARLY = 3, 0.5
"""Steps from one renewal of zeta to the next, once the relative gap is so small.  Each leads away
from the central path: with one step, there are almost twice as many in all."""

MOST = 80
"""Steps."""

ROOM = 0.85
"""Of a length of step that a factorisation allows.  Closer to the boundary next steps are short:
0.97 of the longest one takes up to twice as many."""

BALANCED = 0.3
"""Part of the first weights of nodes that makes up for their slacks; the others are equal."""


class CurvedDescent:
    """The bound of one functional, as far as it has been lowered.

    Parameters
    ----------
    model : CurvedModel
    known : float
        A bound.

    Attributes
    ----------
    done : bool
        Whether no further step lowers the bound.
    seconds : float
        What a step and a proof may take.
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
        """A proved bound after one step or more.

        Parameters
        ----------
        aim : float
            A bound that is good enough.
        late : callable
            Whether there is no time for what takes so many seconds.

        Returns
        -------
        float
            Infinite if there is none.
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
        """The scaled bound, as far as nodes tell."""
        return float(self._system.costs @ self._at.v)

    def _proved(self) -> float:
        """What the multipliers prove."""
        if not self._steps:
            return math.inf
        y, forms = self._system.multipliers(self._scale * self._at.v)
        bound = self._model.proved(self._zeta, y, forms)
        if math.isfinite(bound):
            self._beyond = bound - self._value * self._scale
        return bound

    @np.errstate(all="ignore")  # what overflows has no beginning
    def _first(self) -> Iterate | None:
        """Where it begins: multipliers that make the matrix diagonally dominant.

        None where numbers are too large or too small: slopes of units that are saturated.
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
        """One step, after which zeta may be renewed."""
        following = advanced(self._system, self._at, ROOM)
        self._steps += 1
        self.done = following is None or self._steps >= MOST
        if following is None:
            return
        self._at = following
        early = self._gap > EARLY * abs(self._value)
        settled = self._steps % BETWEEN == 0 or early or not self._whole
        if settled:
            self._renew()
        self._gap = self._at.gap
        close = settled and self._gap <= TOLERANCE * abs(self._value)
        self.done |= close and infeasibility(self._system, self._at) <= 1e-4

    def _renew(self) -> None:
        """Goes on with the best zeta for the moments of now, or some on the way there."""
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
        """The iterate with other zeta; None where it is not feasible."""
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
