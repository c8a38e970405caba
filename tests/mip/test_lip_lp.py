"""LipLP bounds the constant from above in both encodings, never worse than intervals."""

from __future__ import annotations

import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem
from networks import DEGENERATE, domains, random_network
from oracle import exact_constant


@pytest.mark.parametrize("formulation", ["adjoint", "tangent"])
@pytest.mark.parametrize("solver", ["highs", "scip", "cbc"])
def test_bounds_hold_for_every_solver(formulation, solver):
    problem = LipschitzProblem(random_network(4, (2, 5, 4, 2)), Box(-1, 1, 2), "linf", "cross")
    result = lipyomo.solve(problem, "lp", solver=solver, formulation=formulation)
    truth = exact_constant(problem)
    assert result.lower <= truth * (1 + 1e-9)
    assert truth <= result.upper <= result.details["interval_bound"] * (1 + 1e-9)
    assert result.formulation == formulation
    assert str(result.guarantee) == "upper"


KNOWN = sorted(name for name, make in DEGENERATE.items() if make().constant is not None)


@pytest.mark.parametrize("name", KNOWN)
def test_degenerate_networks(name):
    case = DEGENERATE[name]()
    result = lipyomo.solve(LipschitzProblem(case.network, case.domain), "lp", solver="highs")
    assert result.lower - 1e-9 <= case.constant <= result.upper + 1e-9


def test_polytope_bound_is_not_worse_than_its_box():
    network, area = random_network(11, (2, 6, 5, 1)), domains(2)["polytope"]
    around = Box(area.lower, area.upper)
    inner, outer = (
        lipyomo.solve(LipschitzProblem(network, domain), "lp", solver="highs", attain=False)
        for domain in (area, around)
    )
    assert inner.upper <= outer.upper * (1 + 1e-9)


def test_bound_is_recomputed_from_duals():
    problem = LipschitzProblem(random_network(4, (3, 6, 5, 1)), Box(-1, 1, 3))
    result = lipyomo.solve(problem, "lp", solver="highs", attain=False)
    assert result.details["recomputed"]
    exact = lipyomo.solve(problem, "mip", solver="highs")
    assert exact.lower <= result.upper
