"""The soundness chain over every registered method: lower <= truth <= upper, by brute force.

The test grows by itself: each method is run on every pair of norms and every kind of domain that
it claims, on random and on degenerate networks.
"""

from __future__ import annotations

import math
from functools import cache

import pytest

from lipyomo.base.errors import MethodError
from lipyomo.methods import Method, methods
from lipyomo.methods.registry import run_method
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import LinearOutput, OutputNorm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.settings import Settings
from networks import DEGENERATE, Case, domains, mixed_network, random_network
from oracle import exact_constant

TOLERANCE = 1e-7
"""Relative; solvers and the oracle work in floating point."""

TABLE = methods()
SECONDS = {Guarantee.EXACT: 30.0, Guarantee.UPPER: 3.0}
"""Time limits; methods that only sample stop sooner."""

ATTAINED = "naive"
"""The lower ends of methods for upper ones are found by one function that sees no method."""


@cache
def outputs(kind: str) -> OutputNorm | str | None:
    if kind == "linear":
        return LinearOutput(vertices=[[1.0, 0.5], [-0.25, 1.0], [0.5, -1.0]])
    return {"cross(i)": "cross(1)", "scalar": None}.get(kind, kind)


@cache
def case_named(name: str) -> Case:
    if name in DEGENERATE:
        return DEGENERATE[name]()
    if name == "random":
        return Case(random_network(11, (2, 4, 3, 2)), Box([-1.0, -0.5], [0.5, 1.0]))
    if name == "shallow":
        return Case(random_network(13, (2, 5, 2)), Box(-1, 1, 2))
    if name == "slopes":
        return Case(mixed_network(5, (2, 4, 3, 2)), Box(-1, 1, 2))
    return Case(random_network(12, (2, 3, 3, 2)), domains(2)[name])


@cache
def problem_of(name: str, input_norm: str, kind: str) -> LipschitzProblem:
    case = case_named(name)
    m = case.network.output_dim
    if kind == "scalar":
        vector = [1.0] + [-0.5] * (m - 1)
        return LipschitzProblem(case.network, case.domain, input_norm, functional=vector)
    return LipschitzProblem(case.network, case.domain, input_norm, outputs(kind))


@cache
def truth(name: str, input_norm: str, kind: str) -> float:
    return exact_constant(problem_of(name, input_norm, kind))


def check(method: Method, name: str, input_norm: str, kind: str, attain: bool = False) -> None:
    problem = problem_of(name, input_norm, kind)
    limit, attain = SECONDS.get(method.guarantee, 0.1), attain or method.name == ATTAINED
    settings = Settings(time_limit=limit, seed=1, attain=attain)
    if method.refusal(problem) is not None:
        with pytest.raises(MethodError):
            run_method(method.name, problem, settings)
        return
    result = run_method(method.name, problem, settings)
    exact = truth(name, input_norm, kind)
    room = TOLERANCE * max(1.0, exact)
    assert result.lower <= exact + room, (result.lower, exact)
    assert result.upper >= exact - room, (result.upper, exact)
    consistent(method, problem, result, room)


def consistent(method: Method, problem: LipschitzProblem, result: Result, room: float) -> None:
    """Whatever the truth, the parts of a result fit together."""
    assert result.lower >= 0.0
    assert not math.isnan(result.upper)
    witness = result.witness
    if witness is not None:
        assert result.lower <= witness.value + room
        assert problem.value_at(witness.x).value == pytest.approx(witness.value, rel=1e-9)
        assert problem.domain.contains(witness.x)
        gradient = witness.functional @ problem.network.jacobian(witness.pattern)
        assert gradient @ witness.direction == pytest.approx(witness.value, rel=1e-9, abs=1e-12)
    elif method.guarantee is not Guarantee.UPPER:
        assert result.lower == 0.0
    if result.is_exact:
        assert result.upper - result.lower <= 1e-6 * max(result.upper, 1e-9)
    if method.guarantee is Guarantee.EXACT:
        assert result.is_exact, (result.status, result.lower, result.upper, result.warnings)


PAIRS = [
    (method, input_norm, kind)
    for method in TABLE
    for input_norm in TABLE[method].input_norms
    for kind in TABLE[method].output_norms
]


@pytest.mark.parametrize(("method", "input_norm", "kind"), PAIRS)
def test_norms(method: str, input_norm: str, kind: str) -> None:
    deep = TABLE[method].refusal(problem_of("random", input_norm, kind)) is None
    if not deep:  # one hidden layer must do
        assert TABLE[method].refusal(problem_of("shallow", input_norm, kind)) is None
    check(TABLE[method], "random" if deep else "shallow", input_norm, kind)


def usual_kind(method: Method) -> str:
    return "linf" if "linf" in method.output_norms else method.output_norms[0]


@pytest.mark.parametrize("name", [*DEGENERATE, "slopes"])
@pytest.mark.parametrize("method", TABLE)
def test_degenerate_networks(method: str, name: str) -> None:
    entry = TABLE[method]
    check(entry, name, entry.input_norms[0], usual_kind(entry))


@pytest.mark.parametrize("name", list(domains(2)))
@pytest.mark.parametrize("method", TABLE)
def test_domains(method: str, name: str) -> None:
    entry = TABLE[method]
    check(entry, name, entry.input_norms[-1], entry.output_norms[0], attain=True)


def test_refusals_have_a_reason_that_is_the_problem_s() -> None:
    """Only a missing bound, a curved side or a second hidden layer are reasons to refuse."""
    for method, entry in TABLE.items():
        for name in domains(2):
            problem = problem_of(name, entry.input_norms[-1], entry.output_norms[0])
            deep = len(problem.network.hidden) > 1 and "shor" in method
            plain = problem.domain.is_bounded and problem.domain.is_polyhedral
            if plain and not deep:
                assert entry.refusal(problem) is None, (method, name)
