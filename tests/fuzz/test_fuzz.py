"""A few hostile networks a family, by the methods that answer at once, against the exact oracle."""

from __future__ import annotations

import pytest
from fuzz_families import FAMILIES, draw
from fuzz_judge import faults

import lipyomo
from lipyomo.errors import DomainError
from lipyomo.methods import get_method

SEEDS = range(40, 43)
METHODS = ("auto", "interval", "crown", "sdp", "mip")


@pytest.mark.parametrize("family", FAMILIES)
def test_no_promise_is_broken(family: str) -> None:
    judged = 0
    for seed in SEEDS:
        try:
            sample = draw(family, seed)
        except DomainError:  # a slab too thin for a float64 point inside
            continue
        truth = sample.oracle.constant()
        for method in METHODS:
            if method != "auto" and get_method(method).refusal(sample.problem) is not None:
                continue
            result = lipyomo.solve(sample.problem, method, time_limit=5)
            assert not faults(sample, result, truth), (str(sample), method, result)
            judged += 1
    assert judged >= 2 * len(SEEDS)
