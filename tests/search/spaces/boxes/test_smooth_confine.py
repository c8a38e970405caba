"""Boxes with phases: bounds and ends hold all points of the phases that may beat the cutoff."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, Polytope, ball
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.values import jacobians

INPUTS, POINTS = 3, 300

DOMAINS = {
    "box": Box(-2, 2, INPUTS),
    "polytope": Polytope(
        np.array([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]]), np.array([1.0, 1.0]), -2.0, 2.0
    ),
    "ball": ball(np.zeros(INPUTS), 1.5, norm="l2"),
}


def network(name: str) -> Network:
    """Three layers; every other unit has the slopes .2 and 1 if the activation is ``mixed``."""
    rng, sizes, layers = np.random.default_rng(len(name)), [INPUTS, 7, 6, 1], []
    for k, (before, after) in enumerate(pairwise(sizes)):
        weight = 2.0 * rng.normal(size=(after, before)) / np.sqrt(before)
        units = np.arange(0, after, 2 if name == "mixed" else 1)
        curves = (Curve(activation("selu" if name == "mixed" else name), units),) if k < 2 else ()
        left = np.full(after, 0.2)
        if curves:
            left[units] = curves[0].activation.limits[0]
        right = np.ones(after)
        if curves:
            right[units] = curves[0].activation.limits[1]
        layers.append(Layer(weight, 0.3 * rng.normal(size=after), left, right, curves))
    return Network(layers)


def pre_activations(context: BoxContext, points: np.ndarray) -> np.ndarray:
    """Those of units with phases, shape (N, p)."""
    h, found = points, []
    for stage in context.stages:
        z = h @ stage.weight.T + stage.bias
        found.append(z[:, stage.broken])
        h = np.empty_like(z)
        for kind, units in stage.kinds:
            h[:, units] = kind.value(z[:, units])
    return np.concatenate(found, axis=1)


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("selu", "ball"),
        ("elu", "polytope"),
        ("hard_swish", "box"),
        *(("mixed", domain) for domain in DOMAINS),
    ],
)
def test_what_beats_the_cutoff_in_its_phases_is_kept(name: str, domain: str) -> None:
    rng = np.random.default_rng(1)
    problem = LipschitzProblem(network(name), DOMAINS[domain]).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)], dtype=float)
    shrunk = closed = checked = 0
    for width in (1.0, 0.3, 0.03, 1e-4, 1e-9):
        for x in context.domain.sample(rng, 5):
            low = np.maximum(x - width * rng.uniform(size=INPUTS), context.domain.lower)
            high = np.minimum(x + width * rng.uniform(size=INPUTS), context.domain.upper)
            one = Boxes.over(context, low[None], high[None])
            inside = pre_activations(context, x[None])[0]
            points = rng.uniform(low, high, (POINTS, INPUTS))
            z = pre_activations(context, points)
            near = np.abs(z).max(axis=0) > 2.0 * np.abs(z).min(axis=0)  # kinks, not saturation
            held = near & (rng.uniform(size=inside.size) < 0.7)
            floor = np.where(held & (inside > 0), 0.0, -np.inf)
            ceiling = np.where(held & (inside <= 0), 0.0, np.inf)
            points = points[((z >= floor) & (z <= ceiling)).all(axis=1)]
            points = np.concatenate([points[context.domain.contains(points)], x[None]])
            steep = jacobians(context, points, context.rows)[:, 0]
            for v in signs[rng.permutation(len(signs))[:2]]:
                boxes = replace(one, v_low=v[None], v_high=v[None])
                boxes = replace(boxes, floor=floor[None], ceiling=ceiling[None])
                values = steep @ v
                cutoff = float(
                    np.quantile(values, rng.choice([0.3, 0.7, 1.0])) + rng.choice([0.0, 0.1])
                )
                found = bounded(context, boxes, cutoff)
                bound = found.boxes.bounds[0]
                assert np.all(values <= max(bound, cutoff))
                assert found.fuzz[0] < 1e-9  # however large multipliers become
                beat = points[values > cutoff]
                assert np.all(beat >= found.boxes.low)
                assert np.all(beat <= found.boxes.high)
                shrunk += int((found.boxes.low > low).any() or (found.boxes.high < high).any())
                closed += int(bound <= cutoff)
                checked += beat.shape[0]
    assert checked > 600
    assert closed > 1
    assert shrunk > 3
