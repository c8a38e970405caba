"""A few hostile networks a family, by the methods that answer at once, against the exact oracle."""

from __future__ import annotations

import pytest
from fuzz_families import DIRECTED, FAMILIES, Sample, draw
from fuzz_judge import faults
from fuzz_oracle import Oracle
from fuzz_signs import sign_faults

import lipyomo
from lipyomo import LipschitzProblem
from lipyomo.base.errors import DomainError, ProblemError
from lipyomo.methods import get_method

SEEDS = range(40, 45)
METHODS = ("auto", "interval", "crown", "sdp", "mip")


def first(family: str) -> Sample:
    """The first sample that is a problem."""
    for seed in SEEDS:
        try:
            return draw(family, seed)
        except DomainError:  # a slab too thin for a float64 point inside
            continue
        except ProblemError:  # directions that move frozen inputs only together
            assert family in DIRECTED
    raise AssertionError(f"{family}: none of these seeds is a problem")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_promise_is_broken(family: str) -> None:
    judged, sample = 0, first(family)
    truth = sample.oracle.constant()
    for method in METHODS:
        if method != "auto" and get_method(method).refusal(sample.problem) is not None:
            continue
        attain = method == "interval"  # one function finds the others' lower ends, too
        result = lipyomo.solve(sample.problem, method, time_limit=1, attain=attain)
        assert not faults(result, truth), (str(sample), method, result)
        judged += 1
    assert judged >= 2


@pytest.mark.parametrize("family", DIRECTED)
def test_no_promise_about_directions_is_broken(family: str) -> None:
    judged, sample = 0, first(family)
    truth = sample.oracle.constant()
    for method in METHODS:
        if method == "auto" or get_method(method).refusal(sample.problem) is None:
            attain = method == "interval"  # one function finds the others' lower ends, too
            result = lipyomo.solve(sample.problem, method, time_limit=1, attain=attain)
            assert not faults(result, truth), (str(sample), method, result)
            judged += 1
    assert judged


@pytest.mark.parametrize("family", FAMILIES)
def test_no_promise_about_signs_is_broken(family: str) -> None:
    sample = first(family)
    problem = LipschitzProblem(sample.problem.network, sample.problem.domain)
    assert isinstance(sample.oracle, Oracle)
    found = lipyomo.jacobian_ranges(problem, time_limit=0.5)
    assert not sign_faults(found, sample.oracle), (str(sample), found.to_dict())


DECIDED = ("affine_runs/800209", "cancelling/1200226")
"""Slivers in Euclidean balls, which were too thin to decide once."""


@pytest.mark.parametrize("name", DECIDED)
def test_slivers_in_balls_are_decided(name: str) -> None:
    family, seed = name.split("/")
    sample = draw(family, int(seed))
    result = lipyomo.solve(sample.problem, time_limit=20)
    assert result.is_exact
    assert not faults(result, sample.oracle.constant())


FOUND = (
    "ties/500001", "duplicates/500002", "slopes/400000", "decimal/400005", "huge/400015",
    "float32/400016", "signed_zeros/400002", "scaled/400000", "dead/400002", "faces/100183",
    "duplicates/100013", "duplicates/100041", "cancelling/100219", "decimal/100263", "slopes/401",
    "faint/1201162", "faint/1210057", "slopes/1400047",
    "single/820023", "faces/771027", "faint/90010",
)  # fmt: skip
"""Problems on which an earlier state went wrong, or gave no answer."""


@pytest.mark.parametrize("name", FOUND)
def test_what_went_wrong_once_does_not_again(name: str) -> None:
    family, seed = name.split("/")
    sample = draw(family, int(seed))
    truth = sample.oracle.constant()
    for method in ("auto", "crown"):
        result = lipyomo.solve(sample.problem, method, time_limit=20, attain=False)
        assert not faults(result, truth), (str(sample), method, result)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_rows_that_underflow_are_left_out() -> None:
    sample = draw("faint_directed", 95013)
    result = lipyomo.solve(sample.problem, "bnb", time_limit=3)
    assert not faults(result, sample.oracle.constant())
