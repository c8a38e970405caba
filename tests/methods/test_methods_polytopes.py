"""Linear functions on unbounded polytopes have no finite bound, however small they are."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.problems.domains import Polytope


@pytest.mark.parametrize("size", [1.0, 1e-8, 1e-15])
def test_small_functional_on_an_unbounded_polytope(size: float) -> None:
    half = Polytope([[0.0, -1.0]], [0.0])
    assert half.support(np.array([[size, 0.0]]))[0] == np.inf
    cone = Polytope([[1.0, -1.0], [-1.0, -1.0]], [0.0, 0.0])
    assert cone.support(np.array([[size, 0.0]]))[0] == np.inf


@pytest.mark.parametrize("seed", range(6))
def test_rows_alone_bound_a_polytope(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 6))
    positive = seed % 2 == 0
    A = rng.random((d + 2, d)) if positive else rng.standard_normal((6 * d, d))
    polytope = Polytope(A, np.ones(len(A)), 0.0 if positive else -np.inf)
    assert polytope.is_bounded
    points = polytope.sample(rng, 200)
    directions = rng.standard_normal((5, d))
    found = polytope.support(directions)
    assert np.isfinite(found).all()
    assert (points @ directions.T <= found).all()
