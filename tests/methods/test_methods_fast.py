"""Bounds of a twentieth of a second: above the truth, and close to it from the second call on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import lipyomo
from lipyomo import AllSpace, Box, Domain, LipschitzProblem, Network
from lipyomo.base.errors import ProblemError
from lipyomo.methods import fast


def drifting(sizes: tuple[int, ...], count: int, seed: int):
    """Networks as they follow each other in training."""
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((b, a)) / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.1 * rng.standard_normal(len(weight)) for weight in weights]
    for _ in range(count):
        weights = [weight + 0.02 * rng.standard_normal(weight.shape) for weight in weights]
        yield Network.from_arrays(weights, biases)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("output_norm", ["linf", "l1", "l2"])
@pytest.mark.parametrize("domain", [Box(-1, 1, 3), AllSpace(3)], ids=["box", "everywhere"])
def test_never_below_the_truth(norm: str, output_norm: str, domain: Domain) -> None:
    for network in drifting((3, 4, 4, 2), 2, seed=3):
        problem = LipschitzProblem(network, domain, norm, output_norm)
        truth = lipyomo.solve(problem).lower
        assert lipyomo.solve(problem, "fast", attain=False).upper >= truth * (1 - 1e-12)


def test_multipliers_of_other_networks_prove_nothing_wrong() -> None:
    """Networks of equal shape that have nothing in common."""
    for seed in range(6):
        (network,) = drifting((3, 8, 8, 1), 1, seed)
        problem = LipschitzProblem(network, Box(-1, 1, 3))
        assert lipyomo.solve(problem, "fast", attain=False).upper >= lipyomo.solve(
            problem
        ).lower * (1 - 1e-12)


def test_later_calls_begin_where_the_last_one_ended() -> None:
    networks = list(drifting((20, 40, 40, 3), 3, seed=5))
    found = [lipyomo.lipschitz(one, box=(-1, 1), budget="fast").upper for one in networks]
    for network, upper in zip(networks[1:], found[1:], strict=True):
        assert upper < 0.6 * lipyomo.lipschitz(network, box=(-1, 1), method="crown").upper


def test_only_the_last_shapes_are_kept() -> None:
    for inputs in range(2, fast.REMEMBERED + 6):
        (network,) = drifting((inputs, 3, 1), 1, seed=0)
        lipyomo.lipschitz(network, box=(-1, 1), budget="fast")
    assert len(fast._LAST) == fast.REMEMBERED


@pytest.mark.parametrize("words", [{"budget": "slow"}, {"budget": "fast", "method": "bnb"}])
def test_wrong_budgets_are_refused(words: dict[str, str]) -> None:
    (network,) = drifting((2, 3, 1), 1, seed=0)
    with pytest.raises(ProblemError, match="budget"):
        lipyomo.lipschitz(network, box=(-1, 1), **words)
