"""Bounds to second order hold points, and are lower than planes on narrow boxes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from test_known_rows import INPUTS, network, some_boxes

from lipyomo import Box, LipschitzProblem
from lipyomo.search.spaces.boxes.bound import bounded
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.bounding.majorants import tangents
from lipyomo.search.spaces.boxes.bounding.second_order import second_order
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

POINTS = 40


def context_of(kind: str, seed: int, params: Params | None = None) -> BoxContext:
    """That of a network with products."""
    problem = LipschitzProblem(network(kind, seed), Box(-1, 1, INPUTS)).reduced.problem
    found = BoxContext.of(BoxQuestion(problem, params=params or Params()))
    assert found.structure.multiplies or kind == "root"
    return found


def objective(context: BoxContext, rows: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """``rows . t`` at points and directions."""
    h, t = x, v
    for stage in context.stages:
        z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
        h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
    return np.asarray((rows * t).sum(axis=1))


def values(above: Above, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """An affine function at points and directions."""
    return np.asarray((above.x * x).sum(axis=1) + (above.v * v).sum(axis=1) + above.constant)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["layer", "root", "sum"])
def test_no_point_is_above(kind: str, seed: int) -> None:
    context, rng = context_of(kind, seed), np.random.default_rng(seed)
    boxes = some_boxes(context, rng)
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    rows = rng.normal(size=(len(boxes), context.head.shape[1]))
    rows *= rng.choice([0.0, 1.0, 1e-9, 1e6], (len(boxes), 1))
    above = second_order(known, rows, None)
    assert np.isfinite(above.constant).all()
    some = rng.permutation(len(boxes))[:7]
    part = second_order(known.on(some), rows[some], None)
    for name in ("x", "v", "constant"):
        found = getattr(part, name), getattr(above, name)[some]
        size = np.abs(found[1]).max(initial=1.0)
        np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9 * size)
    for k in range(POINTS):
        shares = rng.random((2, *boxes.low.shape))
        shares = np.round(shares) if k % 2 else shares
        x = boxes.low + shares[0] * (boxes.high - boxes.low)
        v = boxes.v_low + shares[1] * (boxes.v_high - boxes.v_low)
        true = objective(context, rows, x, v)
        size = np.abs(above.constant) + (np.abs(above.x) + np.abs(above.v)).sum(axis=1)
        assert (true <= values(above, x, v) + 1e-13 * size).all()


@pytest.mark.parametrize("kind", ["layer", "sum"])
def test_what_is_too_much_shrinks_with_the_third_power(kind: str) -> None:
    """For one direction; of planes it shrinks with the square."""
    context, rng = context_of(kind, 1), np.random.default_rng(0)
    middle = rng.uniform(-0.5, 0.5, (20, INPUTS))
    v = rng.choice([-1.0, 1.0], middle.shape)
    rows = np.repeat(context.rows, len(middle), axis=0)
    points = np.stack(np.meshgrid(*[[-1.0, 0.0, 1.0]] * INPUTS), axis=-1).reshape(-1, INPUTS)
    excess: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for width in (4e-3, 5e-4):
        boxes = replace(Boxes.over(context, middle - width, middle + width), v_low=v, v_high=v)
        known = relaxed(context, boxes, (v, v))
        true = np.max([objective(context, rows, middle + width * e, v) for e in points], axis=0)
        for second in (True, False):
            above = (second_order if second else collapsed)(known, rows, None)
            top = values(above, middle, v) + width * np.abs(above.x).sum(axis=1)
            excess[second].append(top - true)
    wide, narrow = excess[True]
    least = 0.25 if kind == "layer" else 0.1  # planes of normalised rows are tangent
    assert np.median(narrow / excess[False][1]) < least
    assert np.median(narrow / wide) < 1.0 / 300.0


def test_bounds_of_boxes_are_the_least_of_both() -> None:
    contexts = [context_of("layer", 1, Params(second=share)) for share in (0.0, 1e9)]
    rng = np.random.default_rng(4)
    boxes = some_boxes(contexts[0], rng)
    cutoff = np.full(len(boxes), 1e-3)
    plain, both = (bounded(one, boxes, cutoff) for one in contexts)
    assert (both.top <= plain.top).all()
    assert (both.top < plain.top).any()


@pytest.mark.parametrize("seed", range(4))
def test_tangents_are_above_quadratic_forms(seed: int) -> None:
    """Of all signs and sizes, singular ones, ones that overflow, and none."""
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 6))
    A = rng.normal(size=(40, D, D))
    kinds = A, -A @ np.swapaxes(A, 1, 2), A @ np.swapaxes(A, 1, 2), A[:, :, :1] * A[:, :1]
    Q = np.concatenate([*kinds, 0.0 * A, A * np.eye(D), 1e-200 * A, 1e200 * A, np.abs(A)])
    linear = rng.normal(size=(len(Q), D)) * rng.choice([0.0, 1.0, 100.0], (len(Q), 1))
    found = tangents(Q, linear)
    e = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], (200, len(Q), D))
    form = np.einsum("kni,nij,knj->kn", e, Q, e)
    line = (e * found.slope).sum(axis=2) + found.constant
    assert (form <= line + 1e-14 * found.size).all()
    huge = tangents(np.full((1, D, D), 1e308), np.ones((1, D)))
    assert not (huge.constant + np.abs(huge.slope).sum(axis=1) < 1e308).any()
