"""Branch and bound ends where many kinks meet in a point or a line of the domain."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo.analyses.api import solve
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status
from oracle import exact_constant


@pytest.mark.parametrize("d", [2, 3])
def test_kinks_through_the_centre(d: int) -> None:
    rng = np.random.default_rng(7 + d)
    sizes = [d, 5, 4, 2]
    weights = [rng.integers(-2, 3, (n, k)) * 1.0 for k, n in pairwise(sizes)]
    problem = LipschitzProblem(Network.from_arrays(weights), Box(-1, 1, d), "linf", "linf")
    result = solve(problem, "bnb", time_limit=60)
    assert result.status is Status.EXACT
    assert result.upper == pytest.approx(exact_constant(problem), rel=1e-6)
