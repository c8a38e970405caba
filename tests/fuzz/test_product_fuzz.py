"""A few networks of products a family against the oracle in Arb."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fuzz_families import draw
from fuzz_judge import FEW, faults
from product_extremes import EXTREME_PRODUCTS
from product_networks import PRODUCTS

import lipyomo
from lipyomo.base.errors import MethodError, ProblemError
from lipyomo.methods import get_method, methods


@pytest.mark.parametrize("family", EXTREME_PRODUCTS)
def test_nor_on_hard_products(family: str) -> None:
    sample = draw(family, 0)
    result = lipyomo.solve(sample.problem, time_limit=0.2)
    assert not faults(result, sample.oracle.constant()), (str(sample), result)


@pytest.mark.parametrize("family", PRODUCTS)
def test_no_promise_is_broken(family: str) -> None:
    for seed in range(5):
        try:
            sample = draw(family, seed)
            break
        except ProblemError as refused:
            assert "range" in str(refused)  # noqa: PT017
    judged, truth = 0, sample.oracle.constant()
    for method in methods():
        if get_method(method).refusal(sample.problem) is not None:
            continue
        with suppress(MethodError):
            result = lipyomo.solve(
                sample.problem,
                method,
                time_limit=0.2,
                options=FEW.get(method, {}),
                attain=method == "naive",  # one function finds the others' lower ends, too
            )
            assert not faults(result, truth), (str(sample), method, result, truth)
            judged += 1
    assert judged >= 2
