"""Units to second order from layer to layer: points are inside, and what is too much is small."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_products import INPUTS, gated, network
from test_sums import network as sums

from lipyomo import Box, LipschitzProblem
from lipyomo.search.spaces.boxes.bound import bounded, to_second_order
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import Context, Question, box_bytes
from lipyomo.search.spaces.boxes.loops import above_rows
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.relax import relaxed
from lipyomo.search.spaces.boxes.relaxation import Relaxation

COUNT, POINTS = 40, 60


def context_of(seed: int, params: Params | None = None) -> Context:
    """That of a network with three layers of products."""
    problem = LipschitzProblem(network(seed, 3), Box(-1, 1, INPUTS)).reduced.problem
    return Context.of(Question(problem, params=params or Params()))


def boxes_of(context: Context, rng: np.random.Generator, widths: np.ndarray) -> Boxes:
    """Boxes of such widths, each with one direction; some are points."""
    middle = rng.uniform(-1.0, 1.0, (COUNT, INPUTS))
    low, high = (np.clip(middle + sign * widths, -1.0, 1.0) for sign in (-1.0, 1.0))
    low[:3] = high[:3]
    low[3:6, 0] = high[3:6, 0]
    found = Boxes.over(context, low, high)
    found = found.take(np.arange(0, len(found), len(found) // COUNT))
    v = rng.choice([-1.0, 1.0], low.shape)
    return replace(found, v_low=v, v_high=v)


def relaxed_loop(context: Context, boxes: Boxes) -> Relaxation:
    """What is known of boxes to second order."""
    return relaxed(context, boxes, (boxes.v_low, boxes.v_high), expands=True)


@pytest.mark.parametrize("seed", range(6))
def test_points_are_inside(seed: int) -> None:
    context, rng = context_of(seed), np.random.default_rng(seed)
    boxes = boxes_of(context, rng, 2.0 ** -rng.integers(0, 8, (COUNT, 1)))
    known = relaxed_loop(context, boxes)
    rows = rng.normal(size=(COUNT, context.head.shape[1])) * rng.choice([1.0, 1e6], (COUNT, 1))
    above, ends, parts = above_rows(known, rows, None)
    assert np.isfinite(ends).all()
    assert (parts >= 0.0).all()
    for k in range(POINTS):
        share = rng.random(boxes.low.shape)
        x = boxes.low + (np.round(share) if k % 2 else share) * (boxes.high - boxes.low)
        h, t = x, boxes.v_low
        for stage, layer in zip(context.stages, known.layers, strict=True):
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            room = 1e-13 * (1.0 + layer.reach), 1e-13 * (1.0 + layer.pace)
            assert (z >= layer.low - room[0]).all()
            assert (z <= layer.high + room[0]).all()
            assert (np.abs(u - layer.tangent) <= layer.tangent_radius + room[1]).all()
            h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
        true = (rows * t).sum(axis=1)
        size = 1e-13 * (np.abs(rows) * (1.0 + np.abs(t))).sum(axis=1)
        assert (true <= ends + size).all()
        assert (true <= (above.x * x).sum(axis=1) + above.constant + size).all()


def test_what_is_too_much_shrinks_with_the_third_power() -> None:
    seed = next(k for k in range(20) if not context_of(k).breaks)
    context = context_of(seed)
    rows = np.repeat(context.rows[:1], COUNT, axis=0)
    excess = []
    for width in (2.0**-6, 2.0**-8):
        rng = np.random.default_rng(0)
        boxes = boxes_of(context, rng, np.full((COUNT, 1), width))
        corners = np.stack(np.meshgrid(*[[0.0, 0.5, 1.0]] * INPUTS), axis=-1).reshape(-1, INPUTS)
        best = np.full(COUNT, -np.inf)
        for share in corners:
            h, t = boxes.low + share * (boxes.high - boxes.low), boxes.v_low
            for stage in context.stages:
                z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
                h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
            best = np.maximum(best, (rows * t).sum(axis=1))
        excess.append(above_rows(relaxed_loop(context, boxes), rows, None)[1] - best)
    assert np.median(excess[0][6:]) > 30.0 * np.median(excess[1][6:]) > 0.0


def test_not_where_bounds_are_made_of_affine_functions() -> None:
    """Quotients bound ``v' / v`` by these."""
    network_of = LipschitzProblem(sums("root", 0), Box(-1, 1, INPUTS)).reduced.problem
    quotient = Context.of(Question(network_of, params=Params(deep=0)))
    assert any(stage.powers for stage in quotient.stages)
    assert not quotient.expands


def test_bounds_are_mostly_lower_and_never_below_points() -> None:
    seed = next(k for k in range(20) if not context_of(k).breaks)
    context, rng = context_of(seed), np.random.default_rng(3)
    boxes = boxes_of(context, rng, np.full((COUNT, 1), 2.0**-4))
    cutoffs = np.full(COUNT, 1e9)
    both = to_second_order(context, boxes, cutoffs), bounded(context, boxes, 1e9)
    new, old = (one.boxes.bounds for one in both)
    assert (new[:3] <= old[:3] * (1.0 + 1e-9) + 1e-9).all()  # points
    assert np.mean(new <= old * (1.0 + 1e-9)) > 0.6
    assert both[0].boxes.scores[6:].max(axis=1).min() > 0.0


def test_boxes_are_as_many_as_memory_holds_expansions() -> None:
    """Those of the outputs of the last products have the most terms."""
    problem = LipschitzProblem(gated(0), Box(-1, 1, INPUTS)).reduced.problem
    context = Context.of(Question(problem, params=Params(deep=0)))
    assert context.expands
    boxes = boxes_of(context, np.random.default_rng(0), np.full((COUNT, 1), 0.1))
    outputs = relaxed_loop(replace(context, stages=context.stages[:-1]), boxes).outputs
    assert outputs is not None
    most = max(part.terms.nbytes for part in outputs[:2])
    assert box_bytes(problem) < most / len(boxes) <= context.box_bytes
