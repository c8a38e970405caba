"""One affine function of input and direction is above the objective all over a box."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.search.spaces.boxes.bound import bounded, framed
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import jacobians

BOXES, KNOWN, POINTS, INPUTS = 60, 5, 100, 3
"""Of the boxes, the first few are points with one direction."""

NAMES = ["tanh", "sigmoid", "silu", "mish", "elu", "selu", "hard_swish", "softsign", "sin"]


def made(name: str, hidden: int, units: int) -> tuple[BoxContext, Boxes]:
    """Boxes of all sizes, points among them; entries of directions are open, known, or a part."""
    rng = np.random.default_rng(NAMES.index(name))
    sizes = [INPUTS, *[units] * hidden, 1]
    layers = []
    for k, (before, after) in enumerate(pairwise(sizes)):
        weight = 1.5 * rng.normal(size=(after, before)) / np.sqrt(before)
        curves = (Curve(activation(name), np.arange(after)),) if k < hidden else ()
        layers.append(Layer(weight, 0.3 * rng.normal(size=after), curves=curves))
    problem = LipschitzProblem(Network(layers), Box(-2, 2, INPUTS)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    shape = (BOXES, INPUTS)
    ends = np.sort(rng.uniform(-2, 2, (2, *shape)), axis=0)
    width = rng.choice([1.0, 0.3, 1e-2, 1e-6, 0.0], (BOXES, 1))
    low, high = ends[0], ends[0] + width * (ends[1] - ends[0])
    directions = np.sort(rng.choice([-1.0, 1.0], (2, *shape)), axis=0)
    directions *= rng.choice([1.0, 1.0, 0.5], shape)
    high[:KNOWN], directions[0, :KNOWN] = low[:KNOWN], directions[1, :KNOWN]
    boxes = Boxes.over(context, low, high)
    return context, replace(boxes, v_low=directions[0], v_high=directions[1])


@pytest.mark.parametrize(("hidden", "units"), [(1, 6), (2, 6), (3, 6), (1, 1), (2, 1)])
@pytest.mark.parametrize("name", NAMES)
def test_the_affine_function_is_above_the_objective(name: str, hidden: int, units: int) -> None:
    context, boxes = made(name, hidden, units)
    rng = np.random.default_rng(hidden)
    frame = framed(context, boxes)
    known = relaxed(context, boxes, (frame.v_low, frame.v_high))
    above = collapsed(known, frame.rows, frame.errors)
    bounds = bounded(context, boxes, -np.inf).boxes.bounds
    tight = np.full(BOXES, np.inf)
    for k in range(POINTS):
        shares = rng.random((2, BOXES, INPUTS))
        if k % 2:
            shares = np.round(shares)
        x = boxes.low + shares[0] * (boxes.high - boxes.low)
        v = boxes.v_low + shares[1] * (boxes.v_high - boxes.v_low)
        gradients = jacobians(context, x, frame.rows[:, None])[:, 0]
        values = (gradients * v).sum(axis=1)
        room = 1e-12 * (1.0 + np.abs(gradients).sum(axis=1))
        line = (above.x * x).sum(axis=1) + (above.v * v).sum(axis=1) + above.constant
        assert (values <= line + room).all()
        assert (values <= bounds + room).all()
        tight = np.minimum(tight, line - values)
    assert (tight[:KNOWN] <= 1e-9).all()  # nothing but rounding is left
