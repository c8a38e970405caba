"""Inputs that layers pass on: of these nonlinear functions see less than all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import network_of
from test_products import TANH, halved

import lipyomo
from lipyomo import Box, Curve, Layer, LipschitzProblem, Network, activation
from lipyomo.networks.activations import HALVES
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed

TOKENS = 2


def block(features: int, seed: int) -> Network:
    """``x + M norm(x)``, then ``h + M' tanh(norm(h))``, token by token; and a sum of all."""
    rng = np.random.default_rng(seed)
    shape, size = (1, TOKENS, features), (features, features)
    arrays = {
        "shape": np.array(shape),
        "flat": np.array([1, TOKENS * features]),
        "scale": np.ones(features),
        "first": rng.normal(size=size),
        "second": rng.normal(size=size),
        "across": rng.normal(size=(TOKENS, TOKENS)),
        "read": rng.normal(size=(TOKENS * features, 1)),
    }
    steps = [
        ("Reshape", "x shape", "t", {}),
        ("LayerNormalization", "t scale", "n", {"epsilon": 0.1}),
        ("MatMul", "n first", "m", {}),
        ("MatMul", "across m", "a", {}),
        ("Add", "t a", "h", {}),
        ("LayerNormalization", "h scale", "k", {"epsilon": 0.1}),
        ("MatMul", "k second", "o", {}),
        ("Tanh", "o", "p", {}),
        ("Add", "h p", "q", {}),
        ("Reshape", "q flat", "r", {}),
        ("MatMul", "r read", "y", {}),
    ]
    return network_of(steps, arrays, TOKENS * features)


@pytest.mark.parametrize("features", [2, 3])
def test_arguments_are_those_of_features(features: int) -> None:
    """What is added to a token all over is not seen; other rows are as before, up to `off`."""
    rng = np.random.default_rng(features)
    domain = Box(np.full(TOKENS * features, -0.5), np.full(TOKENS * features, 0.5))
    question = BoxQuestion(LipschitzProblem(block(features, 1), domain, "linf"))
    plain, seen = BoxContext.of(question), BoxContext.of(question, featured=True)
    assert seen.features is not None
    assert seen.inputs == TOKENS * (features - 1)
    x = domain.sample(rng, 100)
    h, g, checked = x, seen.features.of(x), 0
    for one, other in zip(plain.stages, seen.stages, strict=True):
        z, y = h @ one.weight.T + one.bias, g @ other.weight.T + other.bias
        off = seen.unit * other.off
        assert off.max() < 1e-10
        checked += np.count_nonzero(off)
        near = abs(z - y) <= off + 1e-13 * (1.0 + abs(z))
        passed = abs(one.slopes(z)[:, : one.bias.size] - 1.0).max(axis=0) == 0.0
        assert near[:, ~passed].all()
        assert near[:, off > 0.0].all()
        h, g = one.outputs(z), other.outputs(y)
    assert checked


def test_constants_are_those_of_the_features() -> None:
    """Exact, attained in the domain, and not below any Jacobian there."""
    rng = np.random.default_rng(0)
    center = np.linspace(-1.0, 1.0, 2 * TOKENS)
    domain = Box(center - 0.1, center + 0.1)
    problem = LipschitzProblem(block(2, 2), domain, "linf")
    found = lipyomo.solve(problem, time_limit=60)
    assert found.status == "exact"
    assert max(problem.value_at(x).value for x in domain.sample(rng, 100)) <= found.upper
    assert found.witness is not None
    assert domain.contains(found.witness.point)
    assert problem.value_at(found.witness.point).value == pytest.approx(found.lower, rel=1e-9)


@pytest.mark.parametrize("eps", [1e-10, 3e-9])
def test_gated_sums_of_features_hold_what_points_have(eps: float) -> None:
    """``a + g (b - a)`` with b = x_1 + eps x_2, where features are without the latter."""
    first = [[1.0, 0.0], [2.0, 0.0], [1.0, eps]]
    curves = [Curve(activation("sigmoid"), [0]), Curve(TANH, [1])]
    slopes = np.array([0.0, 0.0, 1.0])
    units = Layer(first, [0.3, 0.1, 0.0], slopes, slopes, curves)
    g, a, b = np.eye(3)[:, None]
    rows = np.vstack([halved(g, b - a, np.ones((1, 1))), a])
    products = Layer(
        rows, np.zeros(3), slopes, slopes, [Curve(HALVES[0], [0]), Curve(HALVES[1], [1])]
    )
    last = Layer([[1.0, -1.0, 1.0]], [0.0], curves=[Curve(TANH, [0])])
    net = Network([units, products, last, Layer([[1.0]], [0.0])])
    question = BoxQuestion(LipschitzProblem(net, Box(-1, 1, 2)).reduced.problem)
    plain, seen = BoxContext.of(question), BoxContext.of(question, featured=True)
    assert seen.features is not None
    assert seen.inputs == 1
    for x in Box(-1, 1, 2).sample(np.random.default_rng(0), 20):
        x[1] = np.sign(x[1])
        y = seen.features.of(x[None])
        boxes = Boxes.over(seen, y - 1e-15, y + 1e-15)
        layers, h = relaxed(seen, boxes, (boxes.v_low, boxes.v_high)).layers, x
        for stage in plain.stages:
            z = stage.weight @ h + stage.bias
            h = stage.outputs(z)
        assert layers[-1].low[0, 0] <= z[0] <= layers[-1].high[0, 0]


def test_rows_that_are_carried_are_off_by_as_much() -> None:
    rng = np.random.default_rng(0)
    layers = [Layer(rng.normal(size=(2, 2)), [0.1, 0.2], curves=[Curve(TANH, [0, 1])])] * 2
    net = Network([*layers, Layer([[1.0, 1.0]], [0.0])])
    context = BoxContext.of(BoxQuestion(LipschitzProblem(net, Box(-1, 1, 2))))
    first, second = context.stages
    off = replace(context, stages=(first, replace(second, off=np.array([0.0, 1.0 / context.unit]))))
    boxes = Boxes.whole(context).take([0])
    still = np.zeros_like(boxes.low)
    one, other = (
        relaxed(some, boxes, (still, still), forwards=True).layers[1].pre.radius[0]
        for some in (context, off)
    )
    assert other == pytest.approx(one + np.array([0.0, 1.0]))
