"""Cross-checks: agreement is quiet, disagreement is an error."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyomo.environ as pyo
import pytest

from lipyomo.errors import SolverError
from lipyomo.solvers import (
    SolverOptions,
    SolversDisagree,
    SolveStatus,
    available_solvers,
    cross_check,
    solve_model,
)
from lipyomo.solvers.contract import instances as known
from lipyomo.solvers.crosscheck import compare


@pytest.mark.parametrize("pair", list(pairwise(available_solvers())))
def test_solvers_agree(pair: tuple[str, str]) -> None:
    for sense in (pyo.minimize, pyo.maximize):
        model, optimum = known.knapsack(5, sense)
        check = cross_check(model, *pair)
        assert (check.first.solver, check.second.solver) == pair
        assert check.incumbent == pytest.approx(optimum)
        assert check.bound == pytest.approx(optimum, rel=2e-6)
        cross_check(known.infeasible(sense, "mip"), *pair)
        cross_check(known.unbounded(sense, integer=True), *pair)


@pytest.mark.parametrize("sense", [pyo.minimize, pyo.maximize])
def test_disagreement_is_an_error_with_both_answers(sense: object) -> None:
    maximise = sense == pyo.maximize
    model, optimum = known.knapsack(5, sense)
    right = solve_model(model, "highs", SolverOptions(rel_gap=0.0))
    worse = optimum - 1.0 if maximise else optimum + 1.0
    wrong = replace(right, solver="wrong", incumbent=worse, bound=worse)
    with pytest.raises(SolversDisagree, match="beyond the bound") as caught:
        compare(right, wrong, maximise, 1e-6)
    assert caught.value.first is right
    assert isinstance(caught.value, SolverError)
    empty = replace(
        right,
        status=SolveStatus.INFEASIBLE,
        incumbent=None,
        bound=float("-inf") if maximise else float("inf"),
    )
    with pytest.raises(SolversDisagree):
        compare(empty, right, maximise, 1e-6)
    endless = replace(
        right,
        status=SolveStatus.UNBOUNDED,
        incumbent=None,
        bound=float("inf") if maximise else float("-inf"),
    )
    with pytest.raises(SolversDisagree, match="unbounded"):
        compare(right, endless, maximise, 1e-6)
    # A weaker bound of a search that was cut short contradicts nothing.
    cut = replace(
        right, status=SolveStatus.TIME_LIMIT, incumbent=worse,
        bound=optimum + 5.0 if maximise else optimum - 5.0,
    )  # fmt: skip
    check = compare(right, cut, maximise, 1e-6)
    assert check.incumbent == right.incumbent
    assert check.bound == right.bound


def test_a_solver_that_does_not_answer_is_an_error() -> None:
    if "gurobi" not in available_solvers():
        pytest.skip("gurobi is not installed")
    model = pyo.ConcreteModel()
    model.x = pyo.Var(range(2001), bounds=(0, 1))
    model.objective = pyo.Objective(expr=sum(model.x.values()), sense=pyo.maximize)
    if solve_model(model, "gurobi", fallback=False).status is not SolveStatus.SIZE_LIMIT:
        pytest.skip("gurobi has a full licence here")
    with pytest.raises(SolverError, match="no answer"):
        cross_check(model, "highs", "gurobi")
