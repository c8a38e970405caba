"""The checker's bounds of random networks of products at sampled points."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz_families import draw
from product_networks import PRODUCTS

from lipyomo import LipschitzProblem
from lipyomo.proofs.records import domain_record, network_record
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.tree import Question
from lipyomo_check.statement import read_statement


@pytest.mark.parametrize("family", PRODUCTS)
def test_bounds_hold_at_sampled_points(family: str) -> None:
    """Of boxes of all sizes, where functions are singular or overflow as well."""
    rng = np.random.default_rng(5)
    finite = 0
    for seed in range(2):
        problem = draw(family, seed).problem
        if not problem.domain.is_bounded:
            continue
        network, d = problem.network, problem.network.input_dim
        plain = LipschitzProblem(network, problem.domain, "linf", "linf")
        question = Question.of(read_statement(_first(plain)))
        low, high = problem.domain.lower, problem.domain.upper
        count = 12
        for share in (1.0, 0.3, 1e-2, 1e-5, 0.0):
            centre = low + rng.random((count, d)) * (high - low)
            reach = 0.5 * share * (high - low)
            ends = np.maximum(centre - reach, low), np.minimum(centre + reach, high)
            v = np.sort(rng.choice([-1.0, 1.0], (2, count, d)), axis=0)
            anywhere = np.full((count, len(question.chain.broken)), np.inf)
            boxes = Boxes.whole(*ends, *v, -anywhere, anywhere)
            functional = rng.standard_normal((count, network.output_dim))
            found = question.chain.bound(functional, boxes)
            finite += int(np.isfinite(found.upper).sum())
            for _ in range(4):
                x = ends[0] + rng.choice([0.0, 1.0, rng.random()], ends[0].shape) * (
                    ends[1] - ends[0]
                )
                x = np.clip(x, *ends)
                along = np.where(rng.random(v[0].shape) < 0.5, v[0], v[1])
                gradients = np.array(
                    [network.gradients(x[k : k + 1], functional[k])[0] for k in range(count)]
                )
                truth = (gradients * along).sum(axis=1)
                room = 1e-9 * (1 + np.abs(gradients).sum(axis=1))
                assert (truth <= found.upper + room).all()
    assert finite > 30


def _first(problem: LipschitzProblem) -> dict[str, object]:
    return {
        "format": "lipyomo-proof-8",
        "network": network_record(problem.network),
        "domain": domain_record(problem.domain),
        "input_norm": "linf",
        "output_norm": "linf",
        "lower": 0.0,
        "upper": 1.0,
        "onnx": None,
        "witness": {"x": problem.domain.center.tolist()},
        "basis": None,
    }
