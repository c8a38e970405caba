"""Directions of hostile problems: selections, weights, and matrices with every kind of defect."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator


def directions_of(rng: Rng, d: int) -> tuple[dict[str, Any], np.ndarray]:
    """Keywords of a problem, and the matrix (d, k) that they mean."""
    kind = int(rng.integers(3))
    if kind == 0:
        chosen = np.sort(rng.permutation(d)[: int(rng.integers(1, d + 1))])
        return {"wrt": chosen.tolist()}, np.eye(d)[:, chosen]
    if kind == 1:
        weights = _weights(rng, d)
        return {"weights": weights}, np.diag(weights)[:, weights != 0]
    matrix = _matrix(rng, d)
    return {"directions": matrix}, matrix


def _weights(rng: Rng, d: int) -> np.ndarray:
    found = [
        2.0 ** rng.integers(-3, 4, d),
        rng.integers(1, 30, d) / 10.0,
        10.0 ** rng.integers(-12, 13, d),
        np.abs(rng.standard_normal(d)),
    ][int(rng.integers(4))]
    if rng.random() < 0.3:
        found[int(rng.integers(d))] = 0.0
    return np.asarray(found if found.any() else np.ones(d))


def _matrix(rng: Rng, d: int) -> np.ndarray:
    k = int(rng.integers(1, 6))
    found: np.ndarray = [
        rng.integers(-2, 3, (d, k)).astype(float),
        rng.integers(-20, 21, (d, k)) / 10.0,
        rng.standard_normal((d, k)),
        rng.standard_normal((d, k)) * 10.0 ** rng.integers(-8, 9, (d, k)),
    ][int(rng.integers(4))]
    j, i = (int(n) for n in rng.integers(k, size=2))
    defect = int(rng.integers(6))
    if defect == 0:
        found[:, j] = 0.0
    elif defect == 1:
        found[:, j] = -3.0 * found[:, i]
    elif defect == 2:
        found[int(rng.integers(d))] = 0.0
    elif defect == 3:
        found[:, j] = found[:, i] * (1.0 + 2.0**-52)
    return found
