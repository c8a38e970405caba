"""Quadratic functions of the inputs hold the objective, ranges, and all points of a box."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_smooth_planes import NAMES, made

from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.quadratics.on_cubes import QuadraticOnCube
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

POINTS = 60


def curved(name: str, hidden: int) -> tuple[BoxContext, Boxes]:
    """A network with boxes and curves, though it has few inputs."""
    context, boxes = made(name, hidden, 6)
    question = context.question
    params = question.params._replace(curved=(1, 6))
    return replace(context, question=question._replace(params=params)), boxes


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("again", [False, True])
def test_no_point_of_a_cube_is_above(count: int, again: bool) -> None:
    rng = np.random.default_rng(count)
    linear, square = rng.normal(size=(2, 200, count))
    pairs = rng.normal(size=(200, count * (count - 1) // 2))
    square[:60] = np.abs(square[:60])
    square[60:70], pairs[60:65], linear[65:80] = 0.0, 0.0, 0.0
    bends = np.concatenate([square.T, pairs.T])
    form = QuadraticOnCube(rng.normal(size=200), linear.T, bends)
    low, high = form.corner_ends()
    bounds = form.highest() if again else high
    axes = np.meshgrid(*[np.linspace(-1.0, 1.0, 9)] * count, indexing="ij")
    e = np.stack(axes, axis=-1).reshape(-1, count)
    i, j = np.triu_indices(count, 1)
    true = linear @ e.T + square @ (e * e).T + pairs @ (e[:, i] * e[:, j]).T
    true += form.constant[:, None]
    most = true.max(axis=1)
    assert (low <= true.min(axis=1) + 1e-13).all()
    assert (bounds >= most - 1e-13).all()
    np.testing.assert_allclose(bounds[:70], most[:70], atol=1e-13)  # at corners


@pytest.mark.parametrize("hidden", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_points_are_within_ranges_and_bounds(name: str, hidden: int) -> None:
    context, boxes = curved(name, hidden)
    boxes = replace(boxes, v_low=boxes.v_high)  # one direction each
    rng = np.random.default_rng(hidden)
    rows = context.rows[boxes.rows] * rng.choice([1.0, -1e-9, 1e6], (len(boxes), 1))
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    form = collapsed(known, rows, None).form
    assert form is not None
    above = form.highest()
    bounds = bounded(context, boxes, -np.inf).boxes.bounds
    for k in range(POINTS):
        shares = rng.random(boxes.low.shape)
        shares = np.round(shares) if k % 2 else shares
        h, t = boxes.low + shares * (boxes.high - boxes.low), boxes.v_low
        for stage, layer in zip(context.stages, known.layers, strict=True):
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            room = 1e-12 * (1.0 + layer.reach)
            assert (z >= layer.low - room).all()
            assert (z <= layer.high + room).all()
            room = 1e-12 * (1.0 + layer.pace)
            assert (np.abs(u - layer.tangent) <= layer.tangent_radius + room).all()
            h, t = stage.outputs(z), stage.slopes(z) * u
        room = 1e-12 * (1.0 + (np.abs(rows) * layer.pace).sum(axis=1))
        assert ((rows * t).sum(axis=1) <= above + room).all()
        true = (context.rows[boxes.rows] * t).sum(axis=1)
        assert (true <= bounds + 1e-12 * (1.0 + np.abs(true))).all()


def test_one_layer_is_close_to_third_order() -> None:
    """Where affine functions are to second order."""
    context, boxes = curved("tanh", 1)
    middle = boxes.low
    known_excess = []
    for width in (0.04, 0.01):
        some = replace(boxes, low=middle - width, high=middle + width, v_low=boxes.v_high)
        known = relaxed(context, some, (some.v_low, some.v_high))
        above = collapsed(known, context.rows[some.rows], None)
        assert above.form is not None
        top = (above.x * middle).sum(axis=1) + width * np.abs(above.x).sum(axis=1)
        top = top + (above.v * some.v_low).sum(axis=1) + above.constant
        known_excess.append(np.mean(top - above.form.highest()))
    wide, narrow = known_excess
    assert narrow > 0.0
    assert wide > 8.0 * narrow
