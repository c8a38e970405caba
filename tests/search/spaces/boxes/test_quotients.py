"""Ranges of quotients by roots against points, and boxes that are split before they are bounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.params import Params
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics, pairs_of
from lipyomo.search.spaces.boxes.relaxing.quotients import over_powers
from lipyomo.search.spaces.boxes.split import split, split_again, split_up, with_little_left

BOXES, COUNT, DIMENSION, POINTS = 40, 3, 3, 200
UNIT = 1e-13


def quadratics(linear: np.ndarray, matrix: np.ndarray, constant: np.ndarray) -> Quadratics:
    """Functions with linear parts (N, n, D) and matrices (N, n, D, D), without errors."""
    square = np.moveaxis(matrix, (2, 3), (0, 1))
    index = np.arange(len(square))
    bends = [square[index, index]]
    bends += [(square[a, b] + square[b, a])[None] for a, b in pairs_of(len(square))]
    size = np.abs(constant) + np.abs(matrix).sum(axis=(2, 3))
    parts = np.moveaxis(linear, 2, 0), np.concatenate(bends)
    return Quadratics(constant, *parts, np.zeros_like(constant), size)


def squares(rng: np.random.Generator, width: np.ndarray) -> Quadratics:
    """Sums of squares of affine functions, and a number."""
    turn = width * rng.normal(size=(BOXES, COUNT, 5, DIMENSION))
    offset = rng.normal(size=(BOXES, COUNT, 5))
    constant = (offset**2).sum(axis=2) + rng.choice([1e-6, 1.0], (BOXES, COUNT))
    linear = 2.0 * np.einsum("nkj,nkjd->nkd", offset, turn)
    return quadratics(linear, np.einsum("nkjd,nkje->nkde", turn, turn), constant)


def at(function: Quadratics, e: np.ndarray) -> np.ndarray:
    """Values (N, n) at points (N, D)."""
    return function.at(np.moveaxis(e[:, None], 2, 0))


@pytest.mark.parametrize("seed", range(8))
def test_extremes_of_quadratic_functions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = 6, 3
    parts = rng.normal(size=(4, n, d, d))
    convex = rng.random(n) < 0.5
    matrix = np.where(convex[:, None, None], np.swapaxes(parts, 2, 3) @ parts, parts)
    linear = rng.normal(size=(4, n, d)) * rng.choice([0.0, 1.0, 10.0], (4, n, 1))
    constant, error = rng.normal(size=(4, n)), rng.random((4, n))
    found = replace(quadratics(linear, matrix, constant), error=error)
    e = rng.uniform(-1.0, 1.0, (3000, d))
    e[::2] = np.round(e[::2])
    pairs = (e[:, :, None] * e[:, None]).reshape(len(e), -1)
    values = constant[..., None] + linear @ e.T + matrix.reshape(4, n, -1) @ pairs.T
    rough, fine = found.ends(1e-14), found.extremes(convex, 1e-14)
    for low, high in (rough, fine):
        assert (low + error <= values.min(axis=2)).all()
        assert (high - error >= values.max(axis=2)).all()
    assert (fine[0] >= rough[0] - 1e-9 * found.size).all()
    lowest = values.min(axis=2)[:, convex] - error[:, convex]
    assert (fine[0][:, convex] >= lowest - 0.25 * (1.0 + found.size[:, convex])).all()


@pytest.mark.parametrize("exponent", [0.5, 1.5])
@pytest.mark.parametrize("affine", [False, True])
def test_quotients_are_within_their_ranges(affine: bool, exponent: float) -> None:
    rng = np.random.default_rng(int(affine))
    width = rng.choice([1.0, 0.1, 1e-3, 0.0], (BOXES, 1, 1, 1))
    v = squares(rng, width)
    p = replace(squares(rng, width), constant=rng.normal(size=(BOXES, COUNT)))
    if affine:
        p = replace(p, bends=0.0 * p.bends)
    e = rng.uniform(-1.0, 1.0, (POINTS, BOXES, DIMENSION))
    e[::2] = np.sign(e[::2])
    values = np.stack([at(v, point) for point in e])
    low, high = v.extremes(np.ones(COUNT, dtype=bool), UNIT)
    low = np.maximum(low, 0.5 * values.min(axis=0))  # a lower end need not be positive
    known = np.full((BOXES, COUNT), -1e4), np.full((BOXES, COUNT), 1e4)
    ends = over_powers(p, v, (low, high), known, exponent, affine, UNIT)
    truth = np.stack([at(p, point) for point in e]) / values**exponent
    room = 1e-10 * (1.0 + np.abs(truth))
    assert (truth >= ends[0] - room).all()
    assert (truth <= ends[1] + room).all()
    narrow = (width == 1e-3)[:, 0, 0, 0] & (v.constant > 0.1).all(axis=1)
    assert narrow.any()
    assert (ends[1] - ends[0])[narrow].max() < 1.0


def test_products_with_affine_functions_are_within_their_errors() -> None:
    rng = np.random.default_rng(0)
    width = rng.choice([1.0, 0.1, 0.0], (BOXES, 1, 1, 1))
    v, own = squares(rng, width), squares(rng, width)
    away = np.repeat(rng.choice([0.0, 0.2], (BOXES, 1)), COUNT, axis=1)
    p = replace(own, bends=0.0 * own.bends, error=away)
    found = p.multiplied(replace(v, error=away), UNIT)
    for sign in (-1.0, 1.0):
        for _ in range(POINTS):
            e = np.sign(rng.normal(size=(BOXES, DIMENSION))) * rng.choice([0.5, 1.0])
            value = found.at(np.moveaxis(e[:, None], 2, 0))
            truth = (at(p, e) + sign * away) * (at(v, e) + rng.choice([-1.0, 1.0]) * away)
            assert (np.abs(truth - value) <= found.error + 1e-9 * found.size).all()
    affine = (width == 0.0)[:, 0, 0, 0] & (away == 0.0).all(axis=1)
    assert affine.any()
    assert (found.error[affine] == 0.0).all()


def test_boxes_with_high_bounds_are_split_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(4, 2)), rng.normal(size=(1, 4))
    net = Network.from_arrays(weights, activation="tanh")
    context = BoxContext.of(BoxQuestion(LipschitzProblem(net, Box(-1.0, 1.0, 2)).reduced.problem))
    lower = rng.uniform(-1.0, 0.5, (6, 2))
    boxes = Boxes.over(context, lower, lower + 0.5)
    boxes = replace(boxes, bounds=np.arange(6.0), v_low=boxes.v_high, scores=boxes.scores + 1.0)
    found, count = split_again(context, boxes, 3.0)
    assert count == 2
    assert sorted(found.bounds) == [0.0, 1.0, 2.0, 3.0, 4.0, 4.0, 5.0, 5.0]
    for bound in range(6):
        parts = found.take(np.flatnonzero(found.bounds == bound))
        assert np.prod(parts.high - parts.low, axis=1).sum() == pytest.approx(0.25)
        assert (parts.low.min(axis=0) == boxes.low[bound]).all()
        assert (parts.high.max(axis=0) == boxes.high[bound]).all()
    assert split_again(context, boxes, np.inf) == (boxes, 0)


def test_boxes_of_which_little_is_left_are_bounded_before_they_are_split() -> None:
    net = Network.from_arrays((np.eye(2), np.ones((1, 2))), activation="tanh")
    context = BoxContext.of(BoxQuestion(LipschitzProblem(net, Box(-1.0, 1.0, 2)).reduced.problem))
    boxes = Boxes.over(context, np.zeros((2, 2)), np.ones((2, 2)))
    boxes = replace(boxes, bounds=np.arange(2.0), v_low=boxes.v_high, scores=boxes.scores + 1.0)
    left = with_little_left(boxes, replace(boxes, low=np.array([[0.6, 0.0], [0.4, 0.0]])))
    children, unsplit = split(context, left)
    assert sorted(children.bounds) == [0.0, 1.0, 1.0]
    assert not len(unsplit)
    assert (children.take(children.bounds == 0.0).low == [0.6, 0.0]).all()
    assert split_again(context, left.take(slice(0, 1)), -1.0)[1] == 0
    many, count = split_up(context, boxes)
    assert len(many) == 2 + count
    assert context.batches.few <= len(many) < 2 * context.batches.few


def test_boxes_are_not_split_into_more_than_fit_in_memory() -> None:
    net = Network.from_arrays((np.eye(2), np.ones((1, 2))), activation="tanh")
    problem = LipschitzProblem(net, Box(-1.0, 1.0, 2)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem, params=Params(chunk_bytes=1)))
    boxes = Boxes.over(context, np.zeros((1, 2)), np.ones((1, 2)))
    boxes = replace(boxes, bounds=np.ones(1), v_low=boxes.v_high, scores=boxes.scores + 1.0)
    assert context.batches.chunk == 1
    assert split_up(context, boxes)[1] == 0
