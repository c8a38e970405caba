"""Networks that end with rows over roots: what is known of these, and bounds, against points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.clock import Clock
from lipyomo.formats.onnx import from_model
from lipyomo.search.spaces.boxes.bound import WIDE, bounded
from lipyomo.search.spaces.boxes.bounding.rows_over_roots import rows_over_roots
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.quadratics.product_sums import SumsOfSignals, sums_of_products
from lipyomo.search.spaces.boxes.quadratics.stacked import Quadratics
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.structure.tails import tail_of
from lipyomo.search.spaces.boxes.values import derivatives_along, jacobians
from lipyomo.search.spaces.boxes.wide.chords import with_chords

INPUTS, UNITS, BOXES, POINTS = 3, 4, 30, 40


def network(
    seed: int,
    first: tuple[str, ...],
    norm: str,
    epsilon: float,
    mixed: bool,
    last: str,
    inputs: int = INPUTS,
) -> Network:
    """Layers of units, a normalised row, which may be mixed, and units of that.

    Its first weights are nearly the same, so that rows are nearly constant, if the seed is odd.
    """
    rng = np.random.default_rng(seed)
    sizes = [inputs] + [UNITS] * len(first)
    nodes, arrays, at = [], {}, "x"
    for k, (operator, n) in enumerate(zip((*first, "Identity"), sizes, strict=True)):
        weight = rng.normal(size=(n, UNITS))
        if seed % 2:
            weight = weight[:, :1] + 1e-3 * weight
        arrays |= {f"W{k}": weight, f"b{k}": 0.3 * rng.normal(size=UNITS)}
        nodes.append(helper.make_node("Gemm", [at, f"W{k}", f"b{k}"], [f"z{k}"]))
        nodes.append(helper.make_node(operator, [f"z{k}"], [f"h{k}"]))
        at = f"h{k}"
    arrays["g"], arrays["o"] = (
        np.array([1.0, -2.0, 0.0 if seed == 3 else 0.1, 0.5]),
        0.2 * rng.normal(size=UNITS),
    )
    if norm == "GroupNormalization":
        arrays["row"], arrays["back"] = np.array([1, UNITS, 1]), np.array([1, UNITS])
        nodes.append(helper.make_node("Reshape", [at, "row"], ["r"]))
        nodes.append(helper.make_node(norm, ["r", "g", "o"], ["q"], epsilon=epsilon, num_groups=2))
        nodes.append(helper.make_node("Reshape", ["q", "back"], ["n"]))
    else:
        given = [at, "g", "o"] if norm == "LayerNormalization" else [at, "g"]
        nodes.append(helper.make_node(norm, given, ["n"], epsilon=epsilon))
    at = "n"
    if mixed:
        arrays["M"] = rng.normal(size=(UNITS, UNITS))
        nodes.append(helper.make_node("MatMul", ["n", "M"], ["m"]))
        at = "m"
    nodes.append(helper.make_node(last, [at], ["t"]))
    arrays["S"] = rng.normal(size=(UNITS, 1))
    nodes.append(helper.make_node("MatMul", ["t", "S"], ["y"]))
    x = helper.make_tensor_value_info("x", TensorProto.DOUBLE, [1, inputs])
    y = helper.make_tensor_value_info("y", TensorProto.DOUBLE, [1, 1])
    constants = [
        numpy_helper.from_array(
            value.astype(np.int64 if name in ("row", "back") else np.float64), name
        )
        for name, value in arrays.items()
    ]
    graph = helper.make_graph(nodes, "tail", [x], [y], constants)
    opset = [helper.make_opsetid("", 23)]
    return from_model(helper.make_model(graph, opset_imports=opset, ir_version=10))


CASES = [
    (0, (), "RMSNormalization", 1e-3, False, "Tanh"),
    (1, (), "LayerNormalization", 1e-5, False, "Sigmoid"),
    (2, ("Tanh",), "LayerNormalization", 1e-2, True, "Tanh"),
    (3, ("Sigmoid",), "RMSNormalization", 1e-8, True, "Softplus"),
    (4, ("Softplus",), "GroupNormalization", 1e-2, False, "Tanh"),
    (5, ("Tanh", "Sigmoid"), "RMSNormalization", 1e-4, False, "Tanh"),
]


def some_boxes(context: BoxContext, seed: int) -> Boxes:
    """Boxes of all sizes, some with directions that are not decided, or not at all."""
    rng = np.random.default_rng(seed)
    middle = rng.uniform(-1.0, 1.0, (BOXES, INPUTS))
    radius = rng.choice([1.0, 0.1, 1e-2, 1e-6], (BOXES, 1)) * rng.random((BOXES, INPUTS))
    boxes = Boxes.over(context, np.maximum(middle - radius, -1), np.minimum(middle + radius, 1))
    v = rng.choice([-1.0, 1.0], (2, BOXES, INPUTS))
    if seed % 2:
        v[1] = v[0]
    low, high = np.sort(v, axis=0)
    return replace(boxes, v_low=low, v_high=high)


@pytest.mark.parametrize("decided", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_rows_and_bounds_hold_at_points(
    case: tuple[int, tuple[str, ...], str, float, bool, str], decided: bool
) -> None:
    problem = LipschitzProblem(network(*case), Box(-1.0, 1.0, INPUTS)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    tail = context.structure.tail
    assert tail is not None
    assert (tail.first is None) == (case[0] in (0, 5))
    assert tail.roots.units.size == (2 if case[2] == "GroupNormalization" else 1)
    boxes = some_boxes(context, 2 * case[0] + int(decided))
    known = relaxed(context.up_to_tail, boxes, (boxes.v_low, boxes.v_high), lines=False)
    found = rows_over_roots(context, tail, known)
    rows = np.repeat(context.rows, BOXES, axis=0)
    cutoffs = derivatives_along(context, boxes.middle, rows, boxes.v_low).values
    planes = found.above(rows, None)[0], found.second(rows, None)
    left = bounded(context, boxes, cutoffs).boxes
    rng = np.random.default_rng(1)
    closest = np.full((2, BOXES), np.inf)
    for k in range(POINTS):
        share, other = rng.random((2, BOXES, INPUTS))
        if k % 2:
            share, other = np.round(share), np.round(other)
        x = boxes.low + share * (boxes.high - boxes.low)
        v = boxes.v_low + other * (boxes.v_high - boxes.v_low)
        h, t, v_of = x, v, None
        for number, stage in enumerate(context.stages):
            z, u = h @ stage.weight.T + stage.bias, t @ stage.along.T
            if number == tail.start + 1:
                v_of = z[:, tail.roots.units]
            h, t = stage.outputs(z), stage.sums(stage.slopes(z) * stage.own(u))
        assert v_of is not None
        layer, room = found.layer, 1e-11 * (1.0 + np.abs(z))
        steep = 1e-11 * (1.0 + np.abs(found.layer.tangent) + layer.pace / np.sqrt(case[3]))
        assert (v_of >= found.ends[0] * (1.0 - 1e-11)).all()
        assert (v_of <= found.ends[1] * (1.0 + 1e-11)).all()
        assert (z >= layer.low - room).all()
        assert (z <= layer.high + room).all()
        assert (np.abs(u - layer.tangent) <= layer.tangent_radius + steep).all()
        value, sizes = (rows * t).sum(axis=1), (np.abs(rows) * steep).sum(axis=1)
        for number, plane in enumerate(planes):
            above = plane.constant + (plane.x * x).sum(axis=1) + (plane.v * v).sum(axis=1)
            assert (value <= above + sizes).all()
            closest[number] = np.minimum(closest[number], above - value)
        counts = value > cutoffs + sizes
        assert ((x >= left.low - 1e-15) & (x <= left.high + 1e-15))[counts].all()
    narrow = (boxes.high - boxes.low).max(axis=1) < 1e-5
    if decided:
        assert narrow.any()
        assert (closest[:, narrow] < 1e-6 * (1.0 + layer.pace.max())).all()


def test_boxes_too_wide_for_quotients_have_bounds_by_planes() -> None:
    problem = LipschitzProblem(network(*CASES[0]), Box(-1.0, 1.0, INPUTS)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    boxes = some_boxes(context, 4)
    known = relaxed(context.up_to_tail, boxes, (boxes.v_low, boxes.v_high), lines=False)
    tail = context.structure.tail
    assert tail is not None
    found = rows_over_roots(context, tail, known)
    wide = (found.ends[1] > WIDE * found.ends[0]).any(axis=1)
    assert 0 < wide.sum() < BOXES
    bounds = bounded(context, boxes, -np.inf).boxes.bounds
    plain = BoxContext.of(BoxQuestion(problem))
    vars(plain.structure)["tail"] = None
    planes = bounded(plain, boxes, -np.inf).boxes.bounds
    assert bounds[wide] == pytest.approx(planes[wide], rel=1e-9)
    assert (bounds[~wide] != planes[~wide]).any()


def test_no_more_than_two_weights_are_added_up() -> None:
    """A sum of three may cancel out, so that what it rounds is more than an ulp of it."""
    problem = LipschitzProblem(network(*CASES[0]), Box(-1.0, 1.0, INPUTS)).reduced.problem
    stages = BoxContext.of(BoxQuestion(problem)).stages
    place = next(k for k, stage in enumerate(stages) if stage.quotients is not None)
    quotients = stages[place].quotients
    assert quotients is not None
    for squares, known in (([0, 0, 1, 1], True), ([0, 0, 0, 1], False)):
        again = replace(stages[place], quotients=replace(quotients, squares=np.array(squares)))
        assert (tail_of((*stages[:place], again, *stages[place + 1 :])) is not None) == known


def quadratics(rng: np.random.Generator, count: int) -> Quadratics:
    """Functions of three entries on five cubes, without errors."""
    bends = rng.normal(size=(INPUTS * (INPUTS + 1) // 2, 5, count))
    constant, linear = rng.normal(size=(5, count)), rng.normal(size=(INPUTS, 5, count))
    size = np.abs(constant) + np.abs(linear).sum(axis=0) + np.abs(bends).sum(axis=0)
    return Quadratics(constant, linear, bends, np.zeros((5, count)), size)


def test_sums_of_products_hold_with_common_errors() -> None:
    rng = np.random.default_rng(0)
    rows, weights = rng.normal(size=(4, 2)), rng.random((2, 4))
    away = rng.random((2, 5, 2))
    sums, plain = [], []
    for errors in away:
        functions = quadratics(rng, 4)
        plain.append(functions)
        common = replace(functions, error=errors @ np.abs(rows).T)
        sums.append(SumsOfSignals(common, rows, errors))
    found = sums_of_products(sums[0], sums[1], weights, 1e-13)
    apart = [replace(one.functions, error=0.0 * one.functions.error) for one in sums]
    for _ in range(300):
        e = rng.uniform(-1.0, 1.0, (INPUTS, 5, 1))
        e = np.sign(e) if rng.random() < 0.5 else e
        shifts = rng.choice([-1.0, 1.0], (2, 5, 2)) * away
        p, q = (one.at(e) + shift @ rows.T for one, shift in zip(apart, shifts, strict=True))
        assert (np.abs((p * q) @ weights.T - found.at(e)) <= found.error).all()
    separate = sums[0].functions.multiplied(sums[1].functions, 1e-13).sums(weights)
    assert (found.error < separate.error).all()


def test_sums_of_sums_have_what_common_errors_leave() -> None:
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(4, 2)), np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    errors, shares = rng.random((5, 2)), rng.normal(size=(5, 4))
    sums = SumsOfSignals.of(quadratics(rng, 4), rows, errors)
    found = sums.sums(shares, groups)
    exact, middle = replace(sums.functions, error=0.0 * sums.functions.error), np.zeros(INPUTS)
    for signs in ((1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)):
        p = exact.at(middle[:, None, None]) + (signs * errors) @ rows.T
        off = (p * shares) @ groups.T - found.constant
        assert (np.abs(off) <= found.error * (1.0 + 1e-12)).all()
    assert (found.error < (sums.functions.error * np.abs(shares)) @ groups.T).all()


@pytest.mark.parametrize("inputs", [5, 6])
def test_layers_up_to_rows_over_roots_have_no_parabolas(inputs: int) -> None:
    """Networks of so many inputs have, but not where rows are multiples of those before."""
    net = network(0, ("Tanh", "Sigmoid"), "LayerNormalization", 1e-2, False, "Tanh", inputs)
    context = BoxContext.of(
        BoxQuestion(LipschitzProblem(net, Box(-1.0, 1.0, inputs)).reduced.problem)
    )
    assert context.structure.tail is not None
    assert any(stage.copies is not None for stage in context.up_to_tail.stages)
    boxes = Boxes.whole(context)
    boxes = replace(boxes, v_low=boxes.v_high)
    bound = bounded(context, boxes, -np.inf).boxes.bounds[0]
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (POINTS, inputs))
    along = np.repeat(boxes.v_high, POINTS, axis=0)
    rows = np.repeat(context.rows, POINTS, axis=0)
    assert derivatives_along(context, points, rows, along).values.max() <= bound


def test_directions_of_one_box_where_a_layer_has_products_alone() -> None:
    net = network(0, ("Tanh",), "RMSNormalization", 1e-2, True, "Tanh", 5)
    problem = LipschitzProblem(net, Box(-0.1, 0.1, 5)).reduced.problem
    context = BoxContext.of(BoxQuestion(problem))
    assert any(not stage.kinds for stage in context.stages)
    found = with_chords(context, Boxes.whole(context), Clock())
    points = np.random.default_rng(0).uniform(-0.1, 0.1, (POINTS, 5))
    gradients = jacobians(context, points, np.repeat(context.rows[:, None], POINTS, axis=0))
    assert np.abs(gradients).sum(axis=-1).max() <= found.bounds.max()
