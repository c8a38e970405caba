"""How near half-spaces come within boxes: against programs of another solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from lipyomo.search.objectives.halfspace import shortest_steps, steps_of


def truth(box, affine, point: np.ndarray, w: np.ndarray, norm: str) -> float:
    """The least weighted distance in a box where ``a . x + c >= 0``; infinite if there is none."""
    (low, high), (a, c), d = box, affine, point.size
    if norm == "l2":
        inside = {"type": "ineq", "fun": lambda x: a @ x + c}
        start = np.where(a > 0, high, low)
        found = minimize(
            lambda x: np.square((x - point) / w).sum(),
            start,
            jac=lambda x: 2 * (x - point) / w**2,
            bounds=list(zip(low, high, strict=True)),
            constraints=inside,
            tol=1e-14,
            options={"maxiter": 500},
        )
        return float(found.fun**0.5)
    count = d if norm == "l1" else 1
    rows, right = [np.append(-a, np.zeros(count))], [c]
    for j in range(d):
        for sign in (1.0, -1.0):
            row = np.zeros(d + count)
            row[j], row[d + (j if norm == "l1" else 0)] = sign / w[j], -1.0
            rows.append(row)
            right.append(sign * point[j] / w[j])
    bounds = [*zip(low, high, strict=True), *[(0, None)] * count]
    cost = np.append(np.zeros(d), np.ones(count))
    return float(linprog(cost, A_ub=np.array(rows), b_ub=right, bounds=bounds).fun)


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_the_distances(norm: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, count = int(rng.integers(1, 6)), 6
    low = rng.uniform(-2, 1, (count, d))
    high = low + rng.uniform(0, 2, (count, d)) * (rng.random((count, d)) > 0.1)
    point, w = rng.uniform(-1, 1, d), rng.uniform(0.3, 3, d)
    a = rng.normal(size=(count, d)) * (rng.random((count, d)) > 0.2)
    least, most = np.minimum(a * low, a * high).sum(1), np.maximum(a * low, a * high).sum(1)
    c = -(least + (most - least) * rng.uniform(0, 0.98, count))
    bounds, steps = shortest_steps(steps_of((low, high), (a, c), point, w), norm)
    for k in range(count):
        true = truth((low[k], high[k]), (a[k], c[k]), point, w, norm)
        room = 1e-7 if norm == "l2" else 1e-9  # what the other solver is off by
        assert bounds[k] <= true * (1 + room) + 1e-12
        assert bounds[k] >= true * (1 - 1e-5) - 1e-7
        x = point + steps[k] * w
        assert (x >= low[k] - 1e-9).all()
        assert (x <= high[k] + 1e-9).all()
        assert a[k] @ x + c[k] >= -1e-7


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_many_inputs_need_little_memory(norm: str) -> None:
    rng = np.random.default_rng(0)
    low, high = np.full((512, 784), -0.5), np.full((512, 784), 0.5)
    a, c = rng.normal(size=(512, 784)), np.full(512, -3.0)
    bounds, steps = shortest_steps(steps_of((low, high), (a, c), np.zeros(784), None), norm)
    dual = {"linf": np.abs(a).sum(1), "l1": np.abs(a).max(1), "l2": np.linalg.norm(a, axis=1)}
    assert (bounds <= 3.0 / dual[norm] * (1 + 1e-12)).all() or norm == "l1"
    assert (bounds >= 3.0 / dual[norm] * (1 - 1e-9)).all()
    assert ((a * steps).sum(1) >= 3.0 - 1e-9).all()
