"""The conformance suite can fail: adapters with one defect each are caught."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from conformance import SolverContract
from lipyomo.base.errors import SolverError
from lipyomo.solvers.adapter import RunReport, RunRequest
from lipyomo.solvers.highs import Highs
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.status import SolveStatus

Run = Callable[[LinearModel, RunRequest], RunReport]


def incumbent_as_bound(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    report = run(model, request)
    return report if report.x is None else replace(report, bound=model.objective(report.x))


def bound_of_a_minimisation(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    report = run(model, request)
    if not model.maximise or report.bound is None:
        return report
    return replace(report, bound=-report.bound)


def rounded_bound(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    report = run(model, request)
    if report.bound is None or not model.is_mip:
        return report
    step = 4.0 if model.maximise else -4.0
    return replace(report, bound=report.bound + step)


def no_start(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    return run(model, replace(request, start=None))


def no_integers(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    return run(model.relaxed(), request)


def no_constant(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    return run(replace(model, offset=0.0), request)


def no_gap(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    return run(model, replace(request, rel_gap=0.3, abs_gap=None))


def no_log(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    request.supervisor.write = lambda text: None  # type: ignore[method-assign]
    return run(model, request)


def infeasible_if_unbounded(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    report = run(model, request)
    if report.status is SolveStatus.UNBOUNDED:
        return RunReport(SolveStatus.INFEASIBLE)
    return report


def no_quadratics(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    if model.quadratic is not None:
        raise SolverError("HiGHS takes no quadratic objectives (objective 'objective')")
    return run(model, request)


def wrong_progress(run: Run, model: LinearModel, request: RunRequest) -> RunReport:
    tell = request.supervisor.report
    request.supervisor.report = (  # type: ignore[method-assign]
        lambda incumbent, bound, nodes: tell(incumbent, incumbent or bound, nodes)
    )
    return run(model, request)


@pytest.mark.parametrize(
    ("defect", "check"),
    [
        (incumbent_as_bound, "test_a_loose_gap_still_gives_a_true_bound"),
        (incumbent_as_bound, "test_time_limit_with_an_incumbent"),
        (bound_of_a_minimisation, "test_a_loose_gap_still_gives_a_true_bound"),
        (rounded_bound, "test_zero_gap_is_reported_as_optimal"),
        (no_start, "test_a_start_is_honoured"),
        (no_integers, "test_optima_match_brute_force"),
        (no_constant, "test_the_objective_constant_is_kept"),
        (no_gap, "test_an_absolute_gap_still_gives_a_true_bound"),
        (no_log, "test_the_log_and_the_version_are_kept"),
        (infeasible_if_unbounded, "test_unbounded_models_have_no_bound"),
        (no_quadratics, "test_quadratic_objective"),
        (no_quadratics, "test_mixed_products"),
        (wrong_progress, "test_progress_reports_are_true"),
    ],
)
def test_a_defect_is_caught(
    defect: Callable[[Run, LinearModel, RunRequest], RunReport], check: str
) -> None:
    class Defective(Highs):
        name = "defective"

        def run(self, model: LinearModel, request: RunRequest) -> RunReport:
            return defect(super().run, model, request)

    class Checks(SolverContract):
        def make_solver(self) -> Any:
            return Defective()

    with pytest.raises(AssertionError):
        getattr(Checks(), check)()


def test_what_an_adapter_does_not_claim_is_skipped_and_not_passed() -> None:
    class Plain(Highs):
        name, takes = "plain", frozenset[str]()

    class Checks(SolverContract):
        def make_solver(self) -> Any:
            return Plain()

    names = ("quadratic_objective", "second_order_cone", "ordered_sets", "mixed_products")
    for name in names:
        with pytest.raises(unittest.SkipTest, match="takes no"):
            getattr(Checks(), f"test_{name}")()
