"""Products of two pre-activations: what they are read from, and bounds against points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.networks.activations import HALVES, Power, activation
from lipyomo.networks.network import Curve, Layer
from lipyomo.problems.reductions.confine import confined
from lipyomo.search.objectives.smooth import bounded_by_value as value_bounded
from lipyomo.search.spaces.boxes.bound import bounded, framed, framed_jacobian
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.values import growth, jacobians, slopes_at

INPUTS, BOXES, KNOWN, POINTS = 3, 48, 4, 60
"""Of the boxes, the first few are points with one direction."""

TANH = activation("tanh")
HALF = 3
"""Factors, and signals, of each layer."""


def halved(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Rows of both squares of products of rows, all of the sums first."""
    return np.vstack([0.5 * (t * a + b / t), 0.5 * (t * a - b / t)])


def network(seed: int, depth: int = 2) -> Network:
    """Products, with rows that are shared, equal or zero, beside units that are carried or bent."""
    rng = np.random.default_rng(seed)
    names = ["tanh", "sigmoid", "sin", "softplus"]
    layers, before, signs = [], INPUTS, np.eye(INPUTS)
    for _ in range(depth):
        n = 2 * HALF
        weight = rng.normal(size=(n, len(signs))) @ signs
        first = activation(str(rng.choice(names)))
        curves = [Curve(first, range(HALF))]
        layers.append(Layer(weight, 0.4 * rng.normal(size=n), curves=curves))
        a, b = (rng.normal(size=(HALF, n)) for _ in range(2))
        a[0], b[1] = np.eye(n)[0], np.eye(n)[1]
        a[2] = (a[0], 4.0 * b[1], b[2], 0.0 * a[2])[int(rng.integers(4))]
        p, q = 0.5 * rng.normal(size=(2, HALF, 1))
        t = 2.0 ** rng.integers(-2, 3, size=(HALF, 1))
        rows, biases = halved(a, b, t), halved(p, q, t)[:, 0]
        extra = rng.normal(size=(2, n))
        kinds = [
            Curve(HALVES[0], range(HALF)),
            Curve(HALVES[1], range(HALF, n)),
            Curve(Power(2.0) if rng.random() < 0.5 else activation("tanh"), [n]),
        ]
        left = np.append(np.ones(n + 1), rng.choice([0.0, 1.0]))
        bias = np.append(biases, rng.normal(size=2))
        layers.append(Layer(np.vstack([rows, extra]), bias, left, 1.0, kinds))
        signs = np.zeros((HALF + 2, n + 2))
        signs[:HALF, :HALF], signs[:HALF, HALF:n] = np.eye(HALF), -np.eye(HALF)
        signs[HALF:, n:] = np.eye(2)
        before = len(signs)
    head = rng.normal(size=(1, before)) @ signs
    return Network([*layers, Layer(head, np.zeros(1))])


def gated(seed: int) -> Network:
    """Sums ``a + g (b - a)`` that go on as they are, times numbers of either sign."""
    rng = np.random.default_rng(seed)
    n, eye, none = HALF, np.eye(HALF), np.zeros((HALF, HALF))
    ones = np.ones(3 * n)
    identity = [np.where(np.arange(3 * n) < 2 * n, 0.0, 1.0)] * 2
    layers, before = [], np.eye(INPUTS)
    for _ in range(2):
        weight = np.vstack([2.0 * rng.normal(size=(2 * n, n)), eye]) @ before
        bias = np.append(rng.normal(size=2 * n), np.zeros(n))
        curves = [Curve(activation("sigmoid"), range(n)), Curve(TANH, range(n, 2 * n))]
        layers.append(Layer(weight, bias, identity[0], identity[1], curves))
        g, change = np.hstack([eye, none, none]), np.hstack([none, eye, -eye])
        if rng.random() < 0.5:
            g, change = change, g
        t, sign = 2.0 ** rng.integers(-2, 3, size=(n, 1)), rng.choice([-1.0, 1.0])
        passed = np.hstack([none, none, eye])
        rows = np.vstack([halved(g, sign * change, t), passed])
        kinds = [Curve(HALVES[0], range(n)), Curve(HALVES[1], range(n, 2 * n))]
        layers.append(Layer(rows, 0.0 * ones, identity[0], identity[1], kinds))
        before = np.hstack([sign * eye, -sign * eye, eye])
    layers.append(Layer(before, np.zeros(n), curves=[Curve(TANH, range(n))]))
    return Network([*layers, Layer(rng.normal(size=(1, n)), np.zeros(1))])


def context_of(net: Network, native: bool = True) -> BoxContext:
    problem = LipschitzProblem(net, Box(-2, 2, INPUTS)).reduced.problem
    return BoxContext.of(BoxQuestion(problem), native=native)


def some_boxes(context: BoxContext, seed: int) -> Boxes:
    """Boxes of all sizes, points among them; entries of directions are open, known, or a part."""
    rng = np.random.default_rng(seed)
    shape = (BOXES, INPUTS)
    ends = np.sort(rng.uniform(-2, 2, (2, *shape)), axis=0)
    width = rng.choice([1.0, 0.3, 1e-2, 1e-6, 1e-12, 0.0], (BOXES, 1))
    low, high = ends[0], ends[0] + width * (ends[1] - ends[0])
    directions = np.sort(rng.choice([-1.0, 1.0], (2, *shape)), axis=0)
    directions *= rng.choice([1.0, 1.0, 0.5], shape)
    high[:KNOWN], directions[0, :KNOWN] = low[:KNOWN], directions[1, :KNOWN]
    boxes = Boxes.over(context, low, high)
    half = rng.normal(size=shape)
    room = (half * 0.5 * (low + high)).sum(axis=1) + 0.1 * rng.random(BOXES)
    room[rng.random(BOXES) < 0.5] = np.inf
    room[:KNOWN] = np.inf
    return replace(boxes, v_low=directions[0], v_high=directions[1], half=half, room=room)


def points_of(boxes: Boxes, rng: np.random.Generator, k: int) -> tuple[np.ndarray, np.ndarray]:
    """A point and a direction of each box; corners every other time."""
    shares = rng.random((2, *boxes.low.shape))
    if k % 2:
        shares = np.round(shares)
    x = boxes.low + shares[0] * (boxes.high - boxes.low)
    return x, boxes.v_low + shares[1] * (boxes.v_high - boxes.v_low)


@pytest.mark.parametrize("seed", range(12))
def test_the_affine_function_is_above_the_objective(seed: int) -> None:
    context = context_of(network(seed, 1 + seed % 3))
    assert context.structure.multiplies
    boxes = some_boxes(context, seed)
    frame = framed(context, boxes)
    known = relaxed(context, boxes, (frame.v_low, frame.v_high))
    above = collapsed(known, frame.rows, frame.errors)
    bounds = bounded(context, boxes, -np.inf).boxes.bounds
    tight = np.full(BOXES, np.inf)
    rng = np.random.default_rng(seed)
    for k in range(POINTS):
        x, v = points_of(boxes, rng, k)
        inside = (boxes.half * x).sum(axis=1) <= boxes.room
        gradients = jacobians(context, x, frame.rows[:, None])[:, 0]
        values = (gradients * v).sum(axis=1)
        room = 1e-11 * (1.0 + np.abs(gradients).sum(axis=1))
        line = (above.x * x).sum(axis=1) + (above.v * v).sum(axis=1) + above.constant
        assert (values <= line + room)[inside].all()
        assert (values <= bounds + room)[inside].all()
        tight = np.minimum(tight, line - values)
    assert (tight <= 1e-6 * (1.0 + np.abs(values)))[:KNOWN].all()  # hardly more than rounding


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("made", [network, gated])
def test_ranges_hold_what_points_have(seed: int, made: Callable[[int], Network]) -> None:
    context = context_of(made(seed))
    boxes = some_boxes(context, seed)
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    rng = np.random.default_rng(seed)
    for k in range(POINTS):
        h, t = points_of(boxes, rng, k)
        inside = (boxes.half * h).sum(axis=1) <= boxes.room
        for stage, layer in zip(context.stages, known.layers, strict=True):
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            room = 1e-11 * (1.0 + layer.reach + layer.pace)
            assert ((layer.low - room <= z) & (z <= layer.high + room))[inside].all()
            assert (np.abs(u - layer.tangent) <= layer.tangent_radius + room)[inside].all()
            slopes = stage.slopes(z)
            away = np.abs(slopes - layer.rate) - layer.rate_radius
            assert (away <= 1e-11 * (1.0 + np.abs(slopes)))[inside].all()
            h, t = stage.outputs(z), stage.sums(slopes * stage.own(u))


@pytest.mark.parametrize("seed", range(6))
def test_values_lie_below_their_bounds(seed: int) -> None:
    context = context_of(network(seed))
    boxes = some_boxes(context, seed)
    still = np.zeros_like(boxes.v_low)
    boxes = replace(boxes, v_low=still, v_high=still)
    bounds = value_bounded(context, boxes, -np.inf).boxes.bounds
    net, rng = context.question.problem.network, np.random.default_rng(seed)
    for k in range(POINTS):
        x, _ = points_of(boxes, rng, k)
        inside = (boxes.half * x).sum(axis=1) <= boxes.room
        values = net.forward(x)[:, 0]
        assert (values <= bounds + 1e-10 * (1.0 + np.abs(values)))[inside].all()


@pytest.mark.parametrize("seed", range(6))
def test_entries_of_the_gradient_lie_in_what_encloses_them(seed: int) -> None:
    context = context_of(network(seed))
    boxes = some_boxes(context, seed)
    frame = framed(context, boxes)
    found = framed_jacobian(relaxed(context, boxes, (boxes.v_low, boxes.v_high)), frame)
    rng = np.random.default_rng(seed)
    middle, radius = found.middle[:, 0], found.radius[:, 0]
    for k in range(POINTS):
        x, _ = points_of(boxes, rng, k)
        inside = (boxes.half * x).sum(axis=1) <= boxes.room
        gradients = jacobians(context, x, frame.rows[:, None])[:, 0]
        room = 1e-10 * (1.0 + np.abs(gradients))
        assert (np.abs(gradients - middle) <= radius + room)[inside].all()


@pytest.mark.parametrize("seed", range(4))
def test_products_compute_what_their_squares_do(seed: int) -> None:
    net = network(seed)
    native, squares = context_of(net), context_of(net, native=False)
    assert not squares.structure.multiplies
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, (20, INPUTS))
    one, other = (slopes_at(context, x) for context in (native, squares))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-9, atol=1e-9)
    gradients = growth(native, one)
    np.testing.assert_allclose(gradients, growth(squares, other), rtol=1e-7, atol=1e-7)
    # and the gradients are those of differences
    step = 1e-6 * np.eye(INPUTS)[0]
    ahead, behind = (
        (jacobians(native, x + s, native.rows)[:, 0] * one.directions).sum(axis=1)
        for s in (step, -step)
    )
    smooth = np.abs((ahead - behind) / 2e-6 - gradients[:, 0]) < 1e-3 * (
        1 + np.abs(gradients[:, 0])
    )
    assert smooth.mean() > 0.8  # but next to kinks


def test_squares_are_products_where_their_columns_are_opposite() -> None:
    rows = np.array([[0.5, 0.5, 0.0], [0.5, -0.5, 0.0]])
    curves = [Curve(HALVES[0], [0]), Curve(HALVES[1], [1])]
    layer = Layer(rows, np.zeros(2), curves=curves)
    for other, found in ((-3.0, True), (3.0, False), (-2.0, False)):
        context = context_of(Network([layer, Layer([[3.0, other]], [0.0])]), True)
        assert context.structure.multiplies == found
    plain = Layer(rows, np.zeros(2), curves=[Curve(Power(2.0), [0, 1])])
    assert not context_of(Network([plain, Layer([[3.0, -3.0]], [0.0])])).structure.multiplies


def test_one_row_stands_for_a_factor_of_many_products() -> None:
    a = np.array([[1.0, 0.0, 0.0]] * 3)
    b = np.eye(3)
    t = np.array([[1.0], [2.0], [0.5]])
    curves = [Curve(HALVES[0], range(3)), Curve(HALVES[1], range(3, 6))]
    layer = Layer(halved(a, b, t), np.zeros(6), curves=curves)
    net = Network([layer, Layer([[1.0, 2.0, 3.0, -1.0, -2.0, -3.0]], [0.0])])
    context = context_of(net)
    (stage,) = context.stages
    assert stage.products is not None
    assert stage.products.rows == 3  # x_0 is both factors of one
    x = np.array([[0.3, -0.7, 1.1]])
    own = stage.outputs(x @ stage.weight.T + stage.bias) @ context.rows.T
    np.testing.assert_allclose(own, confined(net, Box(-2, 2, 3)).forward(x), rtol=1e-14)


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("seed", range(3))
def test_bounds_are_those_of_any_norm(seed: int, norm: str) -> None:
    problem = LipschitzProblem(network(seed), Box(-0.3, 0.3, INPUTS), norm).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    whole = Boxes.whole(context)
    bound = bounded(context, whole, -np.inf).boxes.bounds.max()
    x = problem.domain.sample(np.random.default_rng(seed), 500)
    assert slopes_at(context, x).values.max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_passed_on_have_the_bounds_of_the_rows_before(seed: int) -> None:
    """Signals that a layer carries, and multiples of them, are not taken back once more."""
    rng, n = np.random.default_rng(seed), 4
    first = Layer(rng.normal(size=(n, INPUTS)), rng.normal(size=n), curves=[Curve(TANH, range(n))])
    carry = Layer(np.vstack([rng.normal(size=(2, n)), np.eye(n)[:2]]), np.zeros(4))
    a, b = np.eye(4)[[2, 3]], np.vstack([-2.0 * np.eye(4)[3], rng.normal(size=4)])
    rows = np.vstack([halved(a, b, np.ones((2, 1))), np.eye(4)[2]])
    curves = [Curve(HALVES[0], [0, 1]), Curve(HALVES[1], [2, 3]), Curve(TANH, [4])]
    kinked = Layer(carry.weight, carry.bias, [0.0, 1.0, 1.0, 1.0], 1.0)
    last = Layer([[1.0, 2.0, -1.0, -2.0, 0.5]], [0.0])
    context = context_of(Network([first, kinked, Layer(rows, np.zeros(5), curves=curves), last]))
    copies = context.stages[-1].copies
    assert copies is not None
    assert len(copies.fresh) < len(copies.source)
    boxes = some_boxes(context, seed)
    known = relaxed(context, boxes, (boxes.v_low, boxes.v_high))
    own, before = known.layers[-1].pre, known.layers[-2].pre
    stage, points = context.stages[-1], np.random.default_rng(seed)
    for k in range(POINTS):
        x, _ = points_of(boxes, points, k)
        h = x
        for earlier in context.stages[:-1]:
            h = earlier.outputs(h @ earlier.weight.T + earlier.bias)
        z = h @ stage.weight.T + stage.bias
        found = (own.x * x[:, None]).sum(axis=2) + own.constant
        inside = (boxes.half * x).sum(axis=1) <= boxes.room
        assert (np.abs(found - z) <= own.radius + 1e-12)[inside].all()
    assert before.radius.shape[1] == 4
