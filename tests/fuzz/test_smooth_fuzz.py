"""A few hostile smooth and mixed networks a family against the oracle in Arb."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from fuzz_families import draw
from fuzz_judge import FEW, faults
from smooth_networks import CURVED

import lipyomo
from lipyomo.base.errors import MethodError
from lipyomo.methods import get_method, methods

SEEDS = range(1)


@pytest.mark.parametrize("family", CURVED)
def test_package_and_oracle_have_the_same_networks(family: str) -> None:
    """Gradients at random points, of networks whose numbers are of ordinary size."""
    rng = np.random.default_rng(0)
    compared = 0
    for seed in range(8):
        sample = draw(family, seed)
        network, domain, oracle = sample.problem.network, sample.problem.domain, sample.oracle
        largest = max(np.abs(v.dense_weight).max(initial=0.0) for v in network.layers)
        if largest > 1e3 or np.abs(domain.upper).max() > 10.0 or not oracle.moving:
            continue
        x = rng.uniform(domain.lower, domain.upper)
        point = [x[j] for j in oracle.moving]
        below = oracle.at(point)
        if below is None:
            continue
        jacobian = network.jacobian_at(x)[:, oracle.moving]
        assert _norm(jacobian, sample) == pytest.approx(float(below), rel=1e-6, abs=1e-9)
        compared += 1
    assert compared >= 2


def _norm(jacobian: np.ndarray, sample) -> float:
    oracle = sample.oracle
    rows = oracle.functionals if oracle.functionals is not None else np.eye(len(jacobian))
    turned = np.array(rows) @ jacobian
    d = turned.shape[1]
    if oracle.input_norm == "linf":
        corners = np.array(np.meshgrid(*[[-1.0, 1.0]] * d)).reshape(d, -1)
        turned = turned @ corners
    if oracle.functionals is not None:
        return float(
            np.linalg.norm(turned, axis=1).max()
            if oracle.input_norm == "l2"
            else np.abs(turned).max()
        )
    return float(
        np.linalg.norm(turned, 2)
        if oracle.input_norm == "l2"
        else np.linalg.norm(turned, axis=0).max()
    )


def _judge(sample, seconds: float) -> int:
    """Solve a problem by all methods that take it; how many there were."""
    answers = {}
    for method in methods():
        if get_method(method).refusal(sample.problem) is None:
            with suppress(MethodError):
                answers[method] = lipyomo.solve(
                    sample.problem,
                    method,
                    time_limit=seconds,
                    options=FEW.get(method, {}),
                    attain=method == "naive",  # one function finds the others' lower ends, too
                )
    truth = sample.oracle.constant()
    for method, result in answers.items():
        assert not faults(result, truth), (str(sample), method, result, truth)
    return len(answers)


@pytest.mark.parametrize("family", CURVED)
def test_no_promise_is_broken(family: str) -> None:
    assert sum(_judge(draw(family, seed), 0.2) for seed in SEEDS) >= 1


FOUND = (
    "residual_units/4", "saturated_units/5", "bends_units/6", "smooth_units/9", "residual_units/11",
    "narrow_units/5", "steep_units/6", "slopes_at_faces_units/1066",
)  # fmt: skip
"""Problems on which an earlier state went wrong."""


@pytest.mark.parametrize("name", FOUND)
def test_what_went_wrong_once_does_not_again(name: str) -> None:
    family, seed = name.split("/")
    assert _judge(draw(family, int(seed)), 0.5) >= 1
