"""What all conformance checks share: how a solver is called, and what a dual bound is."""

from __future__ import annotations

import math
import time
import unittest
from typing import Any

import pyomo.environ as pyo

from lipyomo.solvers.outcome import SolveOutcome, outcome_of
from lipyomo.solvers.status import SolveStatus

MIN, MAX = pyo.minimize, pyo.maximize
SENSES = (MIN, MAX)


def covers(bound: float, value: float, sense: Any, tolerance: float = 1e-6) -> bool:
    """Whether `bound` is a dual bound for `value`."""
    slack = tolerance * max(1.0, abs(value))
    return bound >= value - slack if sense == MAX else bound <= value + slack


class ContractBase:
    """How the checks call a solver; subclasses say which one.

    Attributes
    ----------
    takes_start, reports_progress, takes_threads, can_be_interrupted : bool
        What the adapter can do.
    tolerance, quadratic_tolerance : float
        By how much answers may differ from the known ones, of linear models and of those with
        quadratic terms, which end at interior-point tolerances.
    short : float
        Seconds that the hard models are given.
    prompt : float
        Seconds within which a solver must have reacted to a limit or an interrupt.
    """

    takes_start = True
    reports_progress = True
    takes_threads = True
    can_be_interrupted = True
    tolerance, quadratic_tolerance = 1e-6, 1e-5
    short, prompt = 0.4, 6.0

    def make_solver(self) -> Any:
        """Return a new solver; to be written by the subclass."""
        raise TypeError("a conformance test must say how to make its solver")

    def need(self, ability: bool, otherwise: str) -> None:
        """Skip a check of what the adapter cannot do."""
        if not ability:
            raise unittest.SkipTest(f"the adapter {otherwise}")

    def solve(self, model: Any, sense: Any = MIN, **config: Any) -> SolveOutcome:
        """Solve without loading and without raising."""
        solver = self.make_solver()
        values = {key: value for key, value in config.items() if key in solver.config}
        began = time.perf_counter()
        results = solver.solve(
            model, load_solutions=False, raise_exception_on_nonoptimal_result=False, **values
        )
        seconds = time.perf_counter() - began
        return outcome_of(results, solver.name, sense == MAX, seconds)

    def expect(self, model: Any, value: float, sense: Any = MIN, **config: Any) -> SolveOutcome:
        """Solve and compare with a known optimum."""
        outcome = self.solve(model, sense, **config)
        assert outcome.status in (SolveStatus.OPTIMAL, SolveStatus.GAP), outcome.message
        assert outcome.incumbent is not None
        assert math.isclose(
            outcome.incumbent, value, rel_tol=self.tolerance, abs_tol=self.tolerance
        )
        assert covers(outcome.bound, value, sense)
        assert outcome.gap <= 2 * self.tolerance or abs(outcome.bound - value) <= 2 * self.tolerance
        return outcome
