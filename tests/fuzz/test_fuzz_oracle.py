"""The exact oracle against the floating-point brute force, and against constants known by hand."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz_families import draw
from fuzz_oracle import Oracle, PlainDomain, PlainLayer

import oracle as brute
from lipyomo import LipyomoError


@pytest.mark.parametrize("family", ["plain", "ties", "faces", "residual", "dead", "decimal"])
def test_agrees_with_brute_force(family: str) -> None:
    compared = 0
    for seed in range(12):
        try:
            sample = draw(family, seed)
        except LipyomoError:
            continue
        domain, network = sample.problem.domain, sample.problem.network
        width = (domain.upper - domain.lower)[~domain.frozen]
        if network.kinked_units > 5 or width.size == 0 or width.min() < 0.1:
            continue
        truth = float(sample.oracle.constant())
        assert truth == pytest.approx(brute.exact_constant(sample.problem), rel=1e-6, abs=1e-9)
        compared += 1
    assert compared >= 2


def _line(weights: list[list[list[float]]], biases: list[list[float]]) -> list[PlainLayer]:
    return [
        PlainLayer(
            np.array(w),
            np.array(b),
            np.full(len(b), 0.0 if i < len(weights) - 1 else 1.0),
            np.ones(len(b)),
        )
        for i, (w, b) in enumerate(zip(weights, biases, strict=True))
    ]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-np.inf, np.inf), (-np.inf, 0.0)])
def test_identity_written_with_kinks_has_slope_one(low: float, high: float) -> None:
    layers = _line([[[1.0], [1.0], [-1.0]], [[2.0, -1.0, 1.0]]], [[10.0, 0.0, 0.0], [-20.0]])
    domain = PlainDomain(np.array([low]), np.array([high]), np.zeros((0, 1)), np.zeros(0))
    truth = float(Oracle(layers, domain, "linf", [np.ones(1)]).constant())
    assert truth == 1.0


def test_a_ball_that_only_touches_a_region_does_not_count_it() -> None:
    layers = _line([[[1.0, 0.0], [-1.0, 0.0]], [[1.0, 5.0]]], [[0.0, 0.0], [0.0]])
    none = np.zeros((0, 2))
    open_sides = (-np.full(2, np.inf), np.full(2, np.inf))
    for norm in ("l1", "l2"):
        ball = (norm, np.array([1.0, 0.0]), 1.0)
        domain = PlainDomain(*open_sides, none, np.zeros(0), ball)
        assert float(Oracle(layers, domain, "l2", [np.ones(1)]).constant()) == 1.0
