"""Bounds of boxes hold: of tangents, and of pairs of a functional and a direction."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.layer import Layer
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.layers import Stack, by_layer
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.search.spaces.joint.bound import bounded_pairs
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.euclid import reflected_rows, stretched
from lipyomo.search.spaces.joint.ranges import Corners, tighten_boxes
from lipyomo.search.spaces.joint.substitute import unit_of
from lipyomo.search.spaces.joint.tangents import Tangents
from networks import integer_network, mixed_network, random_network

NETWORKS = {
    "random": random_network(1, (3, 12, 10, 2)),
    "leaky": random_network(2, (4, 9, 8, 7, 3), slope=0.1),
    "mixed": mixed_network(3, (3, 10, 9, 8, 2)),
    "integers": integer_network(4, (3, 8, 8, 2)),
    "no biases": random_network(5, (2, 10, 10, 1), bias=0.0),
    "one input": random_network(6, (1, 9, 7, 2)),
}


def some_boxes(context: JointContext, rng: np.random.Generator, count: int = 12) -> JointBoxes:
    """Boxes of several sizes, some with ends where kinks of `no biases` meet."""
    d = context.problem.network.input_dim
    radius = 0.5 * 2.0 ** -rng.uniform(0.0, 5.0, (count, 1)) * np.ones(d)
    middle = rng.uniform(-1.0 + radius, 1.0 - radius)
    middle[::3] = radius[::3]  # a corner at the origin
    whole = context.whole().take(np.zeros(count, dtype=np.intp))
    return JointBoxes(middle - radius, middle + radius, whole.pairs, whole.scores, whole.fall)


def inside(boxes: JointBoxes, rng: np.random.Generator, count: int = 200) -> FloatArray:
    share = rng.uniform(0.0, 1.0, (len(boxes), count, boxes.low.shape[1]))
    return np.asarray(boxes.low[:, None] + share * (boxes.high - boxes.low)[:, None])


def gradients(network: Network, points: FloatArray) -> tuple[list[FloatArray], FloatArray]:
    """Gradients of the pre-activations of all layers at points (n, d), and Jacobians."""
    rows: FloatArray = np.broadcast_to(
        np.eye(points.shape[1]), (len(points), *2 * points.shape[1:])
    )
    found, signals = [], points
    for layer in network.hidden:
        z = signals @ layer.dense_weight.T + layer.bias
        rows = layer.dense_weight @ rows
        found.append(rows)
        slopes = np.where(z > 0, layer.right, layer.left)
        signals, rows = slopes * z, slopes[:, :, None] * rows
    return found, network.head.dense_weight @ rows


def scaled(network: Network, *factors: float) -> Network:
    """The same with layers multiplied by factors."""
    pairs = zip(network.layers, factors, strict=True)
    return Network([one.with_map(f * one.dense_weight, f * one.bias) for one, f in pairs])


FAINT = scaled(NETWORKS["random"], 1e-30, 1e-12, 1e40)
VAST = scaled(NETWORKS["leaky"], 1e30, 1e25, 1e-30, 1.0)
SCALES = NETWORKS | {"faint": FAINT, "vast": VAST}


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", SCALES)
@pytest.mark.parametrize("norm", ["linf", "l1"])
def test_what_is_known_of_units_holds_at_points(name: str, norm: str, kind: type) -> None:
    network, rng = SCALES[name], np.random.default_rng(0)
    context = JointContext.of(
        LipschitzProblem(network, Box(-1, 1, network.input_dim), norm, "linf")
    )
    assert context is not None
    boxes = some_boxes(context, rng)
    kinked = np.concatenate([layer.kinked for layer in network.hidden])
    start = np.where(kinked, OPEN, RIGHT).astype(np.int8)
    stack = Stack.unknown(np.tile(start, (len(boxes), 1)), boxes.low, boxes.high)
    with np.errstate(over="ignore", invalid="ignore"):  # the vast one has no finite float32 bounds
        tighten_boxes(network.hidden, stack, kind)
        phases = by_layer(network.hidden, stack.phases)
        switches = [Switches.of(*pair) for pair in zip(network.hidden, phases, strict=True)]
        every = np.tile(context.directions, (len(boxes), 1, 1))
        some = [Tangents.of(network, switches, every, kind)]
        some += [
            Tangents.of(network, switches, every[:, j : j + 1], kind) for j in range(every.shape[1])
        ]
    assert stack.alive.all()
    ends = by_layer(network.hidden, stack.lower), by_layer(network.hidden, stack.upper)
    for k, points in enumerate(inside(boxes, rng)):
        signals = points
        for layer, low, high in zip(network.hidden, *ends, strict=True):
            z = layer.preactivation(signals)
            room = 1e-12 * (np.abs(signals) @ np.abs(layer.dense_weight.T) + np.abs(layer.bias))
            assert (z >= low[k] - room).all()
            assert (z <= high[k] + room).all()
            signals = layer.activate(z)
        rows = gradients(network, points)[0]
        for known, directions in zip(some, [every[k], *every[k][:, None]], strict=True):
            for own, lows, highs in zip(rows, known.low, known.high, strict=True):
                tangents = own @ directions.T
                room = 1e-12 * np.abs(own).sum(axis=2, keepdims=True)
                assert not (tangents < lows[k] - room).any()  # what is no number says nothing
                assert not (tangents > highs[k] + room).any()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(
    "norms", [("linf", "linf"), ("linf", "l1"), ("l1", "linf"), ("l1", "cross")]
)
def test_pairs_of_points_are_below_the_bounds(name: str, norms: tuple[str, str]) -> None:
    network, rng = NETWORKS[name], np.random.default_rng(1)
    if norms[1] == "cross" and network.output_dim == 1:
        pytest.skip("one output has no differences")
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim), *norms)
    context = JointContext.of(problem)
    assert context is not None
    boxes = some_boxes(context, rng)
    points = inside(boxes, rng)
    values = np.array([[problem.value_at(x).value for x in some[:10]] for some in points])
    for cutoff in (0.0, float(np.median(values))):
        found = bounded_pairs(context, boxes, cutoff).boxes
        assert (found.bounds >= values.max(axis=1) * (1 - 1e-12)).all()
        for k, some in enumerate(points):
            jacobians = context.targets.functionals @ gradients(network, some)[1]
            pairs = np.abs(jacobians @ context.directions.T).max(axis=0)
            assert (found.pairs[k] >= pairs * (1 - 1e-12)).all()


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("norms", [("l2", "l2"), ("l2", "l1"), ("linf", "l2"), ("l1", "l2")])
def test_euclidean_norms_of_points_are_below_the_bounds(name: str, norms: tuple[str, str]) -> None:
    network, rng = NETWORKS[name], np.random.default_rng(3)
    context = JointContext.of(LipschitzProblem(network, Box(-1, 1, network.input_dim), *norms))
    assert context is not None
    boxes = some_boxes(context, rng)
    every = np.array([gradients(network, some)[1] for some in inside(boxes, rng, 40)])
    if norms[1] != "l2":
        sizes = np.linalg.norm(context.targets.functionals @ every, axis=-1)[..., None]
    elif norms[0] == "l2":
        sizes = np.linalg.norm(every, 2, axis=(-2, -1))[..., None, None]
    else:
        sizes = np.linalg.norm(every @ context.directions.T, axis=-2)[..., None, :]
    sizes = sizes.max(axis=1)
    for cutoff in (0.0, float(np.median(sizes))):
        found = bounded_pairs(context, boxes, cutoff).boxes
        assert found.pairs.shape == boxes.pairs.shape
        assert (found.pairs >= sizes * (1 - 1e-12)).all()
    points = JointBoxes(
        boxes.middle - 1e-9, boxes.middle + 1e-9, boxes.pairs, boxes.scores, boxes.fall
    )
    decided = (most_open(context, points) == 0).nonzero()[0]
    problem = context.problem
    for k in decided:
        value = problem.value_at(points.middle[k]).value
        near = bounded_pairs(context, points.take(slice(k, k + 1)), value).boxes
        assert near.bound == pytest.approx(value, rel=1e-3)
        bound = bounded_pairs(context, near, value * (1.0 - 1e-12)).boxes.bound
        assert bound == pytest.approx(value, rel=1e-9, abs=1e-12)


def most_open(context: JointContext, boxes: JointBoxes) -> FloatArray:
    """How many units each box leaves open."""
    return np.asarray((bounded_pairs(context, boxes, np.inf).stack.phases == OPEN).sum(axis=1))


def test_frames_are_nearly_orthonormal_and_bound_their_inverses() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.standard_normal((20, 4)) * 10.0 ** rng.integers(-8, 8, (20, 1))
    vectors[0], vectors[1] = 0.0, [-2.0, 0.0, 0.0, 0.0]
    frames = reflected_rows(vectors)
    np.testing.assert_allclose(frames @ np.swapaxes(frames, 1, 2), [np.eye(4)] * 20, atol=1e-14)
    along = frames[1:] @ vectors[1:, :, None]
    lengths = np.linalg.norm(vectors[1:], axis=1)
    np.testing.assert_allclose(np.abs(along[:, 0, 0]), lengths, rtol=1e-14)
    skewed = frames + 1e-2 * rng.standard_normal(frames.shape)
    for some in (frames, skewed, skewed + 1.0):
        found = stretched(some)
        truth = np.linalg.norm(np.linalg.inv(some), 2, axis=(1, 2))
        assert (found >= truth * (1 - 1e-14)).all()
    assert (stretched(frames) < 1 + 1e-13).all()
    assert np.isfinite(stretched(skewed)).all()


def test_directions_and_functionals_are_bounded_as_well() -> None:
    network, rng = mixed_network(7, (5, 10, 8, 2)), np.random.default_rng(2)
    problem = LipschitzProblem(
        network, Box(-1, 1, 5), functional=[1.0, -2.0], directions=rng.standard_normal((5, 2))
    )
    context = JointContext.of(problem)
    assert context is not None
    assert context.directions.shape == (2, 2)
    boxes = some_boxes(context, rng)
    bounds = bounded_pairs(context, boxes, 0.0).boxes.bounds
    for bound, some in zip(bounds, inside(boxes, rng, 40), strict=True):
        assert bound >= max(problem.value_at(x).value for x in some) * (1 - 1e-12)


def test_small_boxes_are_bounded_by_their_gradient() -> None:
    network = random_network(8, (3, 12, 10, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 3))
    context = JointContext.of(problem)
    assert context is not None
    x = np.array([[0.3, -0.2, 0.45]])
    whole = context.whole()
    boxes = JointBoxes(x - 1e-9, x + 1e-9, whole.pairs, whole.scores, whole.fall)
    value = problem.value_at(x[0]).value
    near = bounded_pairs(context, boxes, value).boxes
    assert near.bound == pytest.approx(value, rel=1e-3)
    bound = bounded_pairs(context, near, value * (1.0 - 1e-12)).boxes.bound
    assert bound == pytest.approx(value, rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_units_with_ranges_near_nothing_do_not_overflow() -> None:
    network = random_network(3, (2, 4, 3, 1))
    faint = scaled(network, 2.0**-1030, *[1.0] * (len(network.layers) - 1))
    context = JointContext.of(LipschitzProblem(faint, Box(-1, 1, 2)))
    assert context is not None
    found = bounded_pairs(context, some_boxes(context, np.random.default_rng(1)), 0.0).boxes
    assert np.isfinite(found.scores).all()


def kinks(rng: np.random.Generator, inputs: int, units: int) -> Layer:
    """Units of all kinds, some of which have their kink in the middle of the cube."""
    weight = rng.integers(-3, 4, (units, inputs)).astype(float)
    bias = rng.integers(-2, 3, units) * (rng.random(units) < 0.7)
    sides = rng.integers(-2, 3, (2, units)) / 2
    return Layer(weight, bias.astype(float), *sides)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("inputs", [1, 2, 3])
def test_rows_are_below_their_bounds_by_corners(inputs: int, kind: type) -> None:
    rng = np.random.default_rng(inputs)
    layer = kinks(rng, inputs, 9)
    radius = np.concatenate([2.0 ** -np.arange(6.0), [0.0]])[:, None] * np.ones(inputs)
    middle = rng.integers(-1, 2, radius.shape) * radius
    value = middle @ layer.dense_weight.T + layer.bias
    pace = radius @ np.abs(layer.dense_weight.T)
    phases = np.full(value.shape, OPEN, dtype=np.int8)
    part = Stack.unknown(phases, middle - radius, middle + radius)
    part.meet(value - pace, value + pace)
    unit = unit_of([(9, inputs)], kind)
    corners = Corners.of(layer, part, value, 0.0 * value, pace, radius.astype(kind), unit)
    rows = rng.integers(-2, 3, (len(radius), 12, 9)).astype(kind)
    found = corners.highest(rows)
    steps = np.stack(np.meshgrid(*[np.linspace(-1, 1, 9)] * inputs), axis=-1).reshape(-1, inputs)
    points = middle[:, None] + radius[:, None] * steps
    passed = layer.activate(points @ layer.dense_weight.T + layer.bias)
    apart = passed - layer.activate(value)[:, None]
    attained = (rows.astype(float) @ np.swapaxes(apart, 1, 2)).max(axis=2)
    assert (found >= attained).all()
    assert (found[-1] == 0.0).all()
    convex = np.where(layer.right >= layer.left, 1, -1).astype(kind) * np.abs(rows)
    close = 1e-3 if kind is np.float32 else 1e-12
    highest = (convex.astype(float) @ np.swapaxes(apart, 1, 2)).max(axis=2)
    np.testing.assert_allclose(corners.highest(convex), highest, rtol=close, atol=close)


def test_corners_decide_what_lines_around_each_unit_leave_open() -> None:
    rng = np.random.default_rng(8)
    network = random_network(9, (3, 12, 12, 1))
    low, high = np.full((1, 3), -0.5), np.full((1, 3), 0.5)
    stack = Stack.unknown(np.full((1, 24), OPEN, dtype=np.int8), low, high)
    tighten_boxes(network.hidden, stack, np.float64)
    bounds = preactivation_bounds(network, Box(-0.5, 0.5, 3))
    widths = (stack.upper - stack.lower)[0, 12:]
    is_open = (stack.phases == OPEN)[0, 12:]
    usual = bounds.upper[1] - bounds.lower[1]
    assert widths[is_open].sum() < 0.95 * usual[is_open].sum()
    points = rng.uniform(-0.5, 0.5, (2000, 3))
    first, second = network.hidden
    z = second.preactivation(first.activate(first.preactivation(points)))
    assert (z >= stack.lower[0, 12:] - 1e-12).all()
    assert (z <= stack.upper[0, 12:] + 1e-12).all()
