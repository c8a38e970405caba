"""The oracle itself: hand-made constants, and sampling never beats it."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from networks import DEGENERATE, random_network
from oracle import exact_constant, regions

KNOWN = [name for name, make in DEGENERATE.items() if make().constant is not None]


@pytest.mark.parametrize("name", KNOWN)
def test_hand_made_constants(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    assert exact_constant(problem) == pytest.approx(case.constant, abs=1e-12)


def test_every_sampled_pattern_is_a_region() -> None:
    network, domain = random_network(0, (2, 5, 4, 1)), Box(-1, 1, 2)
    known = {tuple(map(bytes, pattern)) for pattern, _ in regions(network, domain)}
    points = domain.sample(np.random.default_rng(0), 2000)
    sampled = {
        tuple(bytes(layer[i]) for layer in network.pattern(points)) for i in range(len(points))
    }
    assert sampled <= known
    assert len(known - sampled) <= 0.5 * len(known)
