"""Piecewise-linear operators compute what onnxruntime computes, with few units."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx_builder import agrees, model, one

import lipyomo
from lipyomo import Box, LipschitzProblem, Status
from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model

RNG = np.random.default_rng(11)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape)


UNITS = {
    "relu": (one("Relu", [2, 3]), [2, 3], 6),
    "leaky": (one("LeakyRelu", [2, 3], alpha=0.3), [2, 3], 6),
    "leaky-steep": (one("LeakyRelu", [2, 3], alpha=1.7), [2, 3], 6),
    "prelu": (one("PRelu", [1, 2, 3], np.array([[0.25], [-0.5]])), [1, 2, 3], 6),
    "prelu-one": (one("PRelu", [2, 3], np.array([0.5, 1.0, 0.0])), [2, 3], 4),
    "abs": (one("Abs", [2, 3]), [2, 3], 6),
    "clip": (one("Clip", [2, 3], np.array(-0.5), np.array(1.0)), [2, 3], 12),
    "clip-min": (one("Clip", [2, 3], np.array(0.25)), [2, 3], 6),
    "clip-max": (one("Clip", [2, 3], None, np.array(0.25)), [2, 3], 6),
    "clip-none": (one("Clip", [2, 3]), [2, 3], 0),
    "clip-6": (one("Clip", [2, 3], opset=6, min=0.0, max=6.0), [2, 3], 12),
    "clip-6-min": (one("Clip", [2, 3], opset=6, min=-1.0), [2, 3], 6),
    "clip-crossed": (one("Clip", [2, 3], np.array(1.0), np.array(-1.0)), [2, 3], 0),
    "clip-infinite": (one("Clip", [2, 3], np.array(0.0), np.array(np.inf)), [2, 3], 6),
    "hard-sigmoid": (one("HardSigmoid", [2, 3], alpha=0.4, beta=0.3), [2, 3], 12),
    "max-constant": (one("Max", [2, 3], draw(3)), [2, 3], 6),
    "min-constant": (one("Min", [2, 3], draw(3), draw(2, 1)), [2, 3], 6),
    "shrink": (one("Shrink", [2, 3], lambd=0.75, bias=0.75), [2, 3], 12),
    "thresholded": (one("ThresholdedRelu", [2, 3], alpha=0.0), [2, 3], 6),
    "reduce-l1": (one("ReduceL1", [1, 4], axes=[1]), [1, 4], 4),
    "reduce-max": (one("ReduceMax", [1, 3, 4], axes=[2]), [1, 3, 4], 9),
    "reduce-min": (one("ReduceMin", [1, 5], axes=[1], keepdims=0), [1, 5], 4),
    "global-max": (one("GlobalMaxPool", [1, 2, 3, 2]), [1, 2, 3, 2], 10),
    "max-pool": (
        one("MaxPool", [1, 2, 4, 4], kernel_shape=[2, 2], strides=[2, 2]),
        [1, 2, 4, 4],
        24,
    ),
}


FAR_AWAY = 2.0**40

LIMITS = {
    "min": [helper.make_node("Min", ["x", "c"], ["y"])],
    "min-first": [helper.make_node("Min", ["c", "x"], ["y"])],
    "max": [
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Max", ["x", "d"], ["y"]),
    ],
    "clip": [
        helper.make_node("Neg", ["c"], ["d"]),
        helper.make_node("Clip", ["x", "d", "c"], ["y"]),
    ],
    "where": [
        helper.make_node("Less", ["x", "c"], ["b"]),
        helper.make_node("Where", ["b", "x", "c"], ["y"]),
    ],
}
"""Limits at which nothing happens in practice, as Keras and PyTorch have them against zeros."""


@pytest.mark.parametrize("case", LIMITS)
def test_limits_that_are_far_away_round_nothing(case: str) -> None:
    """They were subtracted and added again, which rounded values of size one by 1e-4."""
    proto = model(LIMITS[case], [1, 3], {"c": np.array(FAR_AWAY)})
    network, points = from_model(proto), np.random.default_rng(0).uniform(-9, 9, (20, 3))
    assert (network(points) == points).all()
    beyond = np.array([[-3.0 * FAR_AWAY, 3.0 * FAR_AWAY, 1.0]])
    lower, upper = {"max": (-1, np.inf), "clip": (-1, 1)}.get(case, (-np.inf, 1))
    assert (network(beyond) == np.clip(beyond, lower * FAR_AWAY, upper * FAR_AWAY)).all()


def test_the_constant_of_a_unit_normalisation_is_exact() -> None:
    """Keras takes the smaller of ``1 / |x|`` and 1e12."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["xx"]),
        helper.make_node("ReduceSum", ["xx", "axes"], ["s"], keepdims=1),
        helper.make_node("Sqrt", ["s"], ["r"]),
        helper.make_node("Div", ["one", "r"], ["q"]),
        helper.make_node("Min", ["q", "c"], ["m"]),
        helper.make_node("Mul", ["x", "m"], ["y"]),
    ]
    constants = {"axes": np.array([1]), "one": np.array(1.0), "c": np.array(1e12)}
    network = from_model(model(nodes, [1, 2], constants))
    problem = LipschitzProblem(network, Box(1.0, 2.0, 2), "l2", "l2")
    found = lipyomo.solve(problem)
    assert found.status is Status.EXACT
    assert found.upper == pytest.approx(2.0**-0.5, rel=2e-6)  # 1 / |x| at the nearest corner


@pytest.mark.parametrize("case", UNITS, ids=str)
def test_unit_operators(case: str) -> None:
    proto, shape, kinked = UNITS[case]
    assert agrees(proto, shape).kinked_units == kinked


def two_branches(op: str, slope: float = -0.4) -> list:
    return [
        helper.make_node("MatMul", ["x", "w1"], ["a"]),
        helper.make_node("MatMul", ["x", "w2"], ["b"]),
        helper.make_node(op, ["a", "b"], ["y"]),
    ]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_maximum_of_two_branches(op: str) -> None:
    weights = {"w1": draw(4, 3), "w2": draw(4, 3)}
    network = agrees(model(two_branches(op), ["N", 4], weights), ["N", 4])
    assert network.kinked_units == 3


@pytest.mark.parametrize("slope", [0.1, -0.4, -1.0, 2.5, 1.0])
@pytest.mark.parametrize("op", ["Max", "Min"])
def test_maximum_of_multiples_is_one_unit(op: str, slope: float) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Mul", ["a", "s"], ["b"]),
        helper.make_node(op, ["a", "b"], ["z"]),
        helper.make_node("MatMul", ["z", "v"], ["y"]),
    ]
    weights = {"w": draw(4, 3), "s": np.array([slope]), "v": draw(3, 2)}
    network = agrees(model(nodes, ["N", 4], weights), ["N", 4])
    assert network.kinked_units == (0 if slope == 1.0 else 3)
    bent = [layer for layer in network.hidden if not layer.is_affine]
    assert sum(layer.units for layer in bent) == network.kinked_units


def test_prelu_in_pieces_is_one_unit() -> None:
    """``relu(z) - a relu(-z)``, as Keras writes PReLU."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["p"]),
        helper.make_node("Neg", ["z"], ["m"]),
        helper.make_node("Relu", ["m"], ["q"]),
        helper.make_node("Mul", ["q", "a"], ["r"]),
        helper.make_node("Add", ["p", "r"], ["u"]),
        helper.make_node("MatMul", ["u", "v"], ["y"]),
    ]
    weights = {"w": draw(4, 3), "a": np.array([-0.25, 0.0, -0.7]), "v": draw(3, 2)}
    network = agrees(model(nodes, ["N", 4], weights), ["N", 4])
    assert network.sizes == (4, 3, 2)
    assert np.sort(network.hidden[0].left) == pytest.approx([0.0, 0.25, 0.7])


def test_positive_minus_negative_part_is_affine() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["p"]),
        helper.make_node("Neg", ["z"], ["m"]),
        helper.make_node("Relu", ["m"], ["q"]),
        helper.make_node("Sub", ["p", "q"], ["y"]),
    ]
    network = agrees(model(nodes, ["N", 4], {"w": draw(4, 3)}), ["N", 4])
    assert network.kinked_units == 0
    assert not network.hidden


def test_both_parts_share_a_kink() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Relu", ["z"], ["p"]),
        helper.make_node("Neg", ["z"], ["m"]),
        helper.make_node("Relu", ["m"], ["q"]),
        helper.make_node("Concat", ["p", "q"], ["u"], axis=1),
        helper.make_node("MatMul", ["u", "v"], ["y"]),
    ]
    network = agrees(model(nodes, ["N", 4], {"w": draw(4, 3), "v": draw(6, 5)}), ["N", 4])
    assert network.kinked_units == 3
    assert network.sizes == (4, 6, 5)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(4, 7),
    st.integers(4, 7),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
)
def test_max_pool(
    height: int, width: int, k1: int, k2: int, stride: int, dilation: int, padded: bool, ceil: bool
) -> None:
    if (k1 - 1) * dilation >= height or (k2 - 1) * dilation >= width:
        dilation = 1
    pads = [k1 // 2, 0, 0, k2 // 2] if padded else [0, 0, 0, 0]
    shape = [1, 2, height, width]
    proto = one(
        "MaxPool",
        shape,
        kernel_shape=[k1, k2],
        strides=[stride, 1],
        dilations=[dilation, dilation],
        pads=pads,
        ceil_mode=int(ceil),
    )
    agrees(proto, shape)


@pytest.mark.parametrize("alpha", [0.0, 0.2, -0.2])
def test_pooling_before_monotone_units(alpha: float) -> None:
    """A maximum of four ReLUs is the ReLU of a maximum: four units instead of seven."""
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["h"], alpha=alpha),
        helper.make_node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["y"]),
    ]
    proto = model(nodes, ["N", 1, 4, 4], {"w": draw(4, 3)})
    network = agrees(proto, ["N", 1, 4, 4])
    assert network.kinked_units == (4 * 4 if alpha >= 0 else 4 * 7)


def test_units_that_are_read_besides_pooling_stay() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["h"]),
        helper.make_node("ReduceMax", ["h"], ["p"], axes=[1]),
        helper.make_node("Add", ["h", "p"], ["y"]),
    ]
    agrees(model(nodes, ["N", 4]), ["N", 4])


def test_overlapping_windows_share_comparisons() -> None:
    shape = [1, 1, 6, 6]
    network = agrees(one("MaxPool", shape, kernel_shape=[3, 3], strides=[1, 1]), shape)
    windows = 16
    assert network.kinked_units < windows * 8


def written(*nodes: tuple, **constants: float) -> onnx.ModelProto:
    """A model of nodes ``(operator, inputs, output)`` over x and constants."""
    made = [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in nodes]
    return model(made, [2, 3], {name: np.array(value) for name, value in constants.items()})


SOFT = (("Abs", "x", "a"), ("Greater", "a l", "c"), ("Sign", "x", "s"), ("Mul", "s l", "m"))
SOFT += (("Sub", "x m", "d"), ("Mul", "x o", "z"), ("Where", "c d z", "y"))
COMPARED = {
    "softshrink of the newer exporter": (written(*SOFT, l=0.5, o=0.0), 12),
    "leaky": (written(("LessOrEqual", "x o", "c"), ("Mul", "x s", "d"), ("Where", "c d x", "y"),
                      o=0.0, s=0.3), 6),
    "clip": (written(("Greater", "x l", "c"), ("Not", "c", "n"), ("Where", "n x l", "a"),
                     ("Less", "x m", "b"), ("Where", "b m a", "y"), l=1.0, m=-0.5), 12),
    "hat": (written(("Greater", "x m", "c"), ("Less", "x l", "b"), ("And", "b c", "i"),
                    ("Abs", "x", "a"), ("Sub", "l a", "t"), ("Where", "i t o", "y"),
                    o=0.0, l=1.0, m=-1.0), 18),
    "steep": (written(("Relu", "x", "r"), ("Sign", "x", "s"), ("Mul", "s r", "d"),
                      ("Min", "d l", "m"), ("Max", "m o", "y"), l=2.0, o=-1.0), 18),
}  # fmt: skip


@pytest.mark.parametrize("case", COMPARED, ids=str)
def test_activations_that_are_written_out_by_comparisons(case: str) -> None:
    proto, kinked = COMPARED[case]
    assert agrees(proto, [2, 3]).kinked_units == kinked


JUMPS = {
    "value": (one("Shrink", [2, 3], lambd=0.5, bias=0.25), "jumps by 0.25 where.* -0.5"),
    "alpha": (one("ThresholdedRelu", [2, 3]), "jumps by 1 where.* 1,"),
    "where": (written(("Greater", "x o", "c"), ("Where", "c x l", "y"), o=0.0, l=0.1), "by 0.1 "),
    "a point": (written(("Sign", "x", "s"), ("Mul", "s s", "y")), "jumps by 1 where.* 0,"),
    "a little": (written(("Greater", "x o", "c"), ("Sub", "x o", "d"), ("Where", "c d z", "y"),
                         o=0.1, z=1e-9), "jumps by 1e-09"),
}  # fmt: skip


@pytest.mark.parametrize("case", JUMPS, ids=str)
def test_what_comparisons_make_must_not_jump(case: str) -> None:
    proto, words = JUMPS[case]
    with pytest.raises(ImportRefused, match=words):
        from_model(proto)


def test_a_final_choice_can_still_be_cut_off() -> None:
    proto = written(("Sigmoid", "x", "p"), ("Greater", "p h", "c"), ("Where", "c o z", "y"),
                    h=0.5, o=1.0, z=0.0)  # fmt: skip
    with pytest.raises(ImportRefused, match="--output-node p"):
        from_model(proto)
