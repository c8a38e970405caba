"""Conformance: starts, threads, progress, interrupts, and solvers side by side."""

from __future__ import annotations

import _thread
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyomo.environ as pyo

from conformance import instances as known
from conformance.base import MAX, MIN, SENSES, ContractBase, covers
from lipyomo.solvers.outcome import SolveOutcome
from lipyomo.solvers.status import SolveProgress, SolveStatus


class ControlContract(ContractBase):
    """Starts, threads, progress, interrupts, and solvers side by side."""

    def test_a_start_is_honoured(self) -> None:
        """A complete start is at least as good as the incumbent, in both senses."""
        self.need(self.takes_start, "takes no start")
        for sense in SENSES:
            model, hidden = known.market_split(sense)
            start = known.start_at(model, hidden)
            outcome = self.solve(model, sense, time_limit=1.5, start=start)
            assert outcome.incumbent is not None
            assert abs(outcome.incumbent) <= self.tolerance

    def test_a_partial_start_is_completed(self) -> None:
        """A start of the discrete variables alone is completed."""
        self.need(self.takes_start, "takes no start")
        model, hidden = known.market_split(MIN)
        start = pyo.ComponentMap((model.x[j], float(bit)) for j, bit in enumerate(hidden))
        outcome = self.solve(model, MIN, time_limit=5.0, start=start)
        assert outcome.incumbent is not None
        assert abs(outcome.incumbent) <= self.tolerance

    def test_a_bad_start_does_no_harm(self) -> None:
        """An infeasible or very incomplete start changes no optimum."""
        self.need(self.takes_start, "takes no start")
        model, optimum = known.knapsack(3, MAX)
        start = pyo.ComponentMap((var, 1.0) for var in model.x.values())
        self.expect(model, optimum, MAX, start=start)
        start = pyo.ComponentMap([(model.x[0], 1.0)])
        self.expect(model, optimum, MAX, start=start)

    def test_progress_reports_are_true(self) -> None:
        """Every live bound is a bound, every live incumbent feasible in value."""
        self.need(self.reports_progress, "reports no progress")
        for sense in SENSES:
            model, _ = known.market_split(sense)
            reports: list[SolveProgress] = []
            for limit in (0.3, 1.0, 10.0):  # a busy machine may find no incumbent in the first
                reports.clear()
                self.solve(model, sense, time_limit=limit, rel_gap=0.0, progress=reports.append)
                if any(report.incumbent is not None for report in reports):
                    break
            assert reports
            assert all(covers(report.bound, 0.0, sense) for report in reports)
            assert all(covers(0.0, r.incumbent, sense) for r in reports if r.incumbent is not None)
            assert any(report.incumbent is not None for report in reports)
            seconds = [report.seconds for report in reports]
            assert seconds == sorted(seconds)

    def test_progress_may_raise_to_end_the_solve(self) -> None:
        """An exception of the progress function reaches the caller, soon."""
        self.need(self.reports_progress, "reports no progress")
        self.need(self.can_be_interrupted, "cannot be interrupted")
        model, _ = known.market_split(MIN)

        def refuse(report: SolveProgress) -> None:
            raise ZeroDivisionError(f"enough after {report.nodes} nodes")

        began = time.perf_counter()
        try:
            self.solve(model, time_limit=20.0, progress=refuse)
        except ZeroDivisionError:
            assert time.perf_counter() - began < self.prompt
        else:
            raise AssertionError("the exception of the progress function was lost")

    def test_a_stop_event_ends_the_solve(self) -> None:
        """A stop event ends the solve with incumbent and bound."""
        self.need(self.can_be_interrupted, "cannot be interrupted")
        model, _ = known.market_split(MAX)
        stop = threading.Event()
        with self._once_running(stop.set) as progress:
            outcome = self.solve(model, MAX, time_limit=30.0, stop=stop, progress=progress)
        self._check_interrupted(outcome)

    def test_ctrl_c_ends_the_solve(self) -> None:
        """Ctrl-C ends the solve with incumbent and bound."""
        self.need(self.can_be_interrupted, "cannot be interrupted")
        model, _ = known.market_split(MAX)
        with self._once_running(_thread.interrupt_main) as progress:
            outcome = self.solve(model, MAX, time_limit=30.0, progress=progress)
        self._check_interrupted(outcome)

    @contextmanager
    def _once_running(
        self, action: Callable[[], object]
    ) -> Iterator[Callable[[SolveProgress], None]]:
        """Act once when the search is known to run: by its reports, or else after a while."""
        timer = threading.Timer(self.short, action)
        if not self.reports_progress:
            timer.start()
        pending = [action]

        def progress(report: SolveProgress) -> None:
            known_by_now = report.incumbent is not None and math.isfinite(report.bound)
            if self.reports_progress and known_by_now and pending:
                pending.pop()()

        yield progress
        timer.cancel()

    def _check_interrupted(self, outcome: SolveOutcome) -> None:
        assert outcome.status is SolveStatus.INTERRUPTED
        assert outcome.incumbent is not None
        assert outcome.incumbent <= self.tolerance
        assert covers(outcome.bound, 0.0, MAX)
        assert math.isfinite(outcome.bound)
        assert outcome.seconds < self.prompt

    def test_threads_may_change_within_a_process(self) -> None:
        """The number of threads may change from solve to solve."""
        self.need(self.takes_threads, "takes no number of threads")
        model, optimum = known.knapsack(6, MAX)
        for threads in (1, 2, 1):
            self.expect(model, optimum, MAX, threads=threads, rel_gap=0.0)

    def test_repeated_solves_follow_the_model(self) -> None:
        """Solving again after a change of the model solves the changed model."""
        model = pyo.ConcreteModel()
        model.x = pyo.Var(bounds=(0, 4), domain=pyo.Integers)
        model.objective = pyo.Objective(expr=model.x, sense=MAX)
        model.row = pyo.Constraint(expr=2 * model.x <= 7)
        self.expect(model, 3.0, MAX)
        self.expect(model, 3.0, MAX)
        model.row.deactivate()
        self.expect(model, 4.0, MAX)
        model.x.setub(2)
        self.expect(model, 2.0, MAX)

    def test_two_models_alive_at_once(self) -> None:
        """Two outcomes stay valid side by side."""
        one, first = known.knapsack(7, MAX)
        two, second = known.knapsack(8, MIN)
        outcome_one = self.solve(one, MAX, rel_gap=0.0)
        outcome_two = self.solve(two, MIN, rel_gap=0.0)
        outcome_one.load()
        outcome_two.load()
        assert math.isclose(pyo.value(one.objective), first, rel_tol=self.tolerance)
        assert math.isclose(pyo.value(two.objective), second, rel_tol=self.tolerance)

    def test_loading_is_left_to_the_caller(self) -> None:
        """Nothing is written into the model before ``load``."""
        model, optimum = known.knapsack(9, MAX)
        outcome = self.solve(model, MAX, rel_gap=0.0)
        assert all(var.value is None for var in model.x.values())
        outcome.load()
        assert math.isclose(pyo.value(model.objective), optimum, rel_tol=self.tolerance)

    def test_the_log_and_the_version_are_kept(self) -> None:
        """Log, version and time are there."""
        model, _ = known.knapsack(9, MAX)
        outcome = self.solve(model, MAX)
        assert outcome.log.strip()
        assert outcome.version
        assert outcome.seconds > 0.0
