"""What a method cannot do is said in a sentence."""

from __future__ import annotations

import pytest

from lipyomo import AllSpace, Box, LipschitzProblem, solve
from lipyomo.base.errors import MethodError
from lipyomo.methods import methods
from networks import random_network


def cube(*sizes: int, norm: str = "linf", output: str | None = None) -> LipschitzProblem:
    return LipschitzProblem(random_network(1, sizes), Box(-1, 1, sizes[0]), norm, output)


@pytest.mark.parametrize(
    ("method", "problem", "options", "words"),
    [
        ("shor", cube(2, 3, 3, 1), {}, "use hr1"),
        ("hr2", cube(2, 3, 1, norm="l1"), {}, "no input norm l1"),
        ("shor", cube(2, 3, 2, output="l2"), {}, "no output norm l2"),
        ("lipopt", cube(2, 4, 4, 1), {"k": 2}, "degree 3"),
        ("seqlip", cube(2, 20, 1), {"search": "exact"}, "at most 14 unstable units"),
        ("lipsdp", cube(2, 3, 1), {"form": "network"}, "neuron, layer"),
        ("lipsdp", cube(2, 3, 1), {"form": "layer", "solver": "newton"}, "no layer form"),
        ("lipsdp", cube(2, 3, 1), {"split": -1}, "split"),
        ("naive", cube(2, 3, 1), {"norms": "l2"}, "asked, paper"),
        ("random_lb", cube(2, 3, 1), {"samples": 0}, "at least 1"),
        ("random_lb", cube(2, 3, 1), {"samples": 1.5}, "whole number"),
        ("clever", cube(2, 3, 1), {"batches": 2}, "at least 3"),
        ("hr1", cube(2, 3, 1), {"tolerance": 0}, "between 0 and 1"),
        ("fastlip", cube(2, 3, 1), {"relaxation": "lp"}, "no option relaxation"),
        ("crosslip", cube(2, 3, 2, output="l2"), {}, "no output norm l2"),
    ],
)
def test_sentences(
    method: str, problem: LipschitzProblem, options: dict[str, object], words: str
) -> None:
    with pytest.raises(MethodError, match=words):
        solve(problem, method, options=options)


@pytest.mark.parametrize(
    ("method", "options", "words"), [("lipopt", {"k": 4}, "LipOpt"), ("hr2", {}, "multipliers")]
)
def test_relaxations_too_large_to_write_down_leave_a_cheaper_bound(
    method: str, options: dict[str, object], words: str
) -> None:
    problem = cube(200, 500, 80, 1)
    result = solve(problem, method, options=options)
    assert any(words in warning and "fastlip" in warning for warning in result.warnings)
    assert result.upper == pytest.approx(solve(problem, "fastlip", attain=False).upper, rel=0.5)
    assert result.upper >= solve(problem, "local_search", time_limit=1.0).lower


def test_exact_methods_of_table5_need_a_bounded_domain() -> None:
    problem = LipschitzProblem(random_network(1, (2, 3, 3)), AllSpace(2), margin=1)
    with pytest.raises(MethodError, match="bounded"):
        solve(problem, "mipcrosslip")


@pytest.mark.parametrize("name", methods())
def test_every_method_says_what_it_is(name: str) -> None:
    method = methods()[name]
    assert method.title
    assert method.reference
    assert method.run.__doc__
    for option in method.options:
        assert option in (method.run.__doc__ or ""), option
