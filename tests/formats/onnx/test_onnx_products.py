"""Operators that multiply signals, compared with onnxruntime and with formulas."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, parser
from onnx_builder import agrees, model, one

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import from_model

RNG = np.random.default_rng(41)


@pytest.mark.parametrize("shape", [[1, 3], [1, 2, 3], [2, 4], [1, 1]])
@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize("opset", [11, 13])
def test_softmax(op: str, axis: int, shape: list[int], opset: int) -> None:
    agrees(one(op, shape, axis=axis, opset=opset), shape)


def test_softmax_of_large_scores_is_exact_and_never_steep() -> None:
    network = from_model(one("Softmax", [1, 4]))
    values = network.forward([[800.0, -800.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(values, [[1.0, 0.0, 0.0, 0.0], [0.25] * 4], atol=1e-15)
    problem = LipschitzProblem(network, lipyomo.AllSpace(4), "l2", "l2")
    assert lipyomo.solve(problem, "naive", attain=False).upper < 40.0  # it is 1/2 in truth
    p = network.forward([1.0, 1.0, -1.0, -1.0])
    steepest = np.linalg.norm(np.diag(p) - np.outer(p, p), 2)
    found = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 4), "l2", "l2"))
    assert found.upper == pytest.approx(steepest, rel=1e-5)


@pytest.mark.parametrize("op", ["ReduceSumSquare", "ReduceProd", "ReduceL2", "ReduceLogSumExp"])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reductions(op: str, keepdims: int) -> None:
    agrees(one(op, [2, 3], axes=[1], keepdims=keepdims, opset=11), [2, 3])


@pytest.mark.parametrize(("op", "most"), [("Sinh", np.cosh(1.0)), ("Cosh", np.sinh(1.0))])
def test_hyperbolic_functions(op: str, most: float) -> None:
    network = agrees(one(op, [1, 3]), [1, 3])
    found = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 3), output_norm="linf"))
    assert found.status == "exact"
    assert found.upper == pytest.approx(most, rel=2e-6)


@pytest.mark.parametrize("exponent", [2.0, 3.0, 1.0, 0.0, 4.0])
def test_powers(exponent: float) -> None:
    agrees(one("Pow", [1, 3], np.array(exponent)), [1, 3])


def test_powers_that_are_none() -> None:
    with pytest.raises(ImportRefused, match=r"0\.3"):
        from_model(one("Pow", [1, 3], np.array(0.3)), check=False)
    with pytest.raises(ImportRefused, match="differ"):
        from_model(one("Pow", [1, 3], np.array([2.0, 3.0, 2.0])), check=False)


@pytest.mark.parametrize(
    ("a", "b"), [([2, 3], [3, 2]), ([2, 1, 3], [3, 4]), ([4], [4]), ([2, 2], [2])]
)
def test_products_of_matrices(a: list[int], b: list[int]) -> None:
    sizes = [int(np.prod(shape)) for shape in (a, b)]
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["p", "q"], axis=1),
        helper.make_node("Reshape", ["p", "a"], ["m"]),
        helper.make_node("Reshape", ["q", "b"], ["n"]),
        helper.make_node("MatMul", ["m", "n"], ["y"]),
    ]
    constants = {"sizes": np.array(sizes), "a": np.array(a), "b": np.array(b)}
    network = agrees(model(nodes, [1, sum(sizes)], constants), [1, sum(sizes)])
    assert set(network.activations) == {"square"}


def test_a_mean_with_weights_of_a_softmax_needs_one_product_less() -> None:
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["s", "v"], axis=1),
        helper.make_node("Softmax", ["s"], ["p"]),
        helper.make_node("Reshape", ["v", "shape"], ["w"]),
        helper.make_node("MatMul", ["p", "w"], ["y"]),
    ]
    for n in (2, 3):
        constants = {"sizes": np.array([n, 2 * n]), "shape": np.array([n, 2])}
        network = agrees(model(nodes, [1, 3 * n], constants), [1, 3 * n])
        assert network.activations["square"] == 4 * (n - 1)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalisation(axis: int, bias: bool) -> None:
    shape = [1, 2, 3]
    own = tuple(shape[axis:])
    given = [RNG.normal(size=own)] * (2 if bias else 1)
    agrees(one("LayerNormalization", shape, *given, axis=axis, epsilon=0.01), shape)


def test_other_normalisations() -> None:
    scale, bias = RNG.normal(size=(2, 2))
    agrees(one("InstanceNormalization", [1, 2, 3], scale, bias), [1, 2, 3])
    scale, bias = RNG.normal(size=(2, 4))
    made = one("GroupNormalization", [1, 4, 2], scale, bias, num_groups=2, opset=21)
    agrees(made, [1, 4, 2])


@pytest.mark.parametrize("axes", [[0, 2], [1], [1, 2]])
def test_mean_variance_normalisation(axes: list[int]) -> None:
    agrees(one("MeanVarianceNormalization", [1, 3, 4], axes=axes), [1, 3, 4])


@pytest.mark.parametrize(
    ("equation", "a", "b"),
    [
        ("ij,jk->ik", [2, 3], [3, 2]),
        ("bhqd,bhkd->bhqk", [1, 2, 2, 2], [1, 2, 3, 2]),
        ("ij,ij", [2, 3], [2, 3]),
        ("i,j->ji", [2], [3]),
        ("bij,jk", [2, 2, 3], [3, 2]),
    ],
)
def test_einsum(equation: str, a: list[int], b: list[int]) -> None:
    sizes = [int(np.prod(shape)) for shape in (a, b)]
    nodes = [
        helper.make_node("Split", ["x", "sizes"], ["p", "q"], axis=1),
        helper.make_node("Reshape", ["p", "a"], ["m"]),
        helper.make_node("Reshape", ["q", "b"], ["n"]),
        helper.make_node("Einsum", ["m", "n"], ["y"], equation=equation),
    ]
    constants = {"sizes": np.array(sizes), "a": np.array(a), "b": np.array(b)}
    agrees(model(nodes, [1, sum(sizes)], constants), [1, sum(sizes)])
    weight = RNG.normal(size=b)
    node = helper.make_node("Einsum", ["x", "w"], ["y"], equation=equation)
    linear = agrees(model([node], a, {"w": weight}), a)
    assert not linear.hidden


@pytest.mark.parametrize("equation", ["bij->bj", "bii->b", "bij->jib"])
def test_einsum_of_one_tensor(equation: str) -> None:
    agrees(one("Einsum", [1, 3, 3], equation=equation), [1, 3, 3])


def test_equations_that_are_not_read() -> None:
    for equation in ("...ij->...ji", "bij->bk", "b->b"):
        with pytest.raises(ImportRefused, match="equation"):
            from_model(one("Einsum", [1, 2, 2], equation=equation), check=False)


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("late", [0, 1])
def test_recurrent_layers(kind: str, direction: str, late: int) -> None:
    gates, count, width = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], 1 + (direction[0] == "b"), 2
    constants = {
        "w": RNG.normal(size=(count, gates * width, 3)),
        "r": RNG.normal(size=(count, gates * width, width)),
        "b": RNG.normal(size=(count, 2 * gates * width)),
        "h": RNG.normal(size=(count, 1, width)),
    }
    given: dict[str, object] = {"linear_before_reset": late} if kind == "GRU" else {}
    reads = ["x", "w", "r", "b", "", "h"]
    writes = ["a", "end"]
    if kind == "LSTM":
        constants["c"] = RNG.normal(size=(count, 1, width))
        reads, writes = [*reads, "c"], ["a", "end", "cell"]
    if kind == "RNN":
        given["activations"] = ["Relu", "Tanh"][:count]
    last = helper.make_node(kind, reads, writes, hidden_size=width, direction=direction, **given)
    nodes = [
        last,
        helper.make_node("Concat", ["flat", *[f"{w}1" for w in writes[1:]]], ["y"], axis=0),
    ]
    nodes.insert(1, helper.make_node("Reshape", ["a", "row"], ["flat"]))
    for name in writes[1:]:
        nodes.insert(1, helper.make_node("Reshape", [name, "row"], [f"{name}1"]))
    proto = model(nodes, [4, 1, 3], {**constants, "row": np.array([-1])})
    network = agrees(proto, [4, 1, 3])
    assert ("square" in network.activations) == (kind != "RNN")


def test_recurrent_layers_that_are_none() -> None:
    constants = {"w": np.ones((1, 2, 3)), "r": np.ones((1, 2, 2))}
    for given, says in (({"activations": ["Affine"]}, "Affine"), ({"clip": 1.0}, "clip")):
        node = helper.make_node("RNN", ["x", "w", "r"], ["y"], hidden_size=2, **given)
        with pytest.raises(ImportRefused, match=says):
            from_model(model([node], [2, 1, 3], constants), check=False)


@pytest.mark.parametrize("weight", ["Sub (one, g)", "Sub (two, g)", "Sigmoid (b)"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_mean_that_is_written_as_two_products_is_one(weight: str, turned: bool) -> None:
    pair = "q, p" if turned else "p, q"
    text = f"""
        <ir_version: 8, opset_import: ["" : 17]>
        gate (float[1,6] x) => (float[1,2] y)
        <float one = {{1.0}}, float two = {{2.0}}, int64[3] parts = {{2, 2, 2}}>
        {{
          a, b, c = Split <axis = 1> (x, parts)
          g = Sigmoid (c)
          h = {weight}
          p = Mul (h, a)
          q = Mul (b, g)
          y = Add ({pair})
        }}
    """
    network = from_model(parser.parse_model(text))
    assert network.activations["square"] == (4 if weight == "Sub (one, g)" else 8)


def test_a_network_with_a_quotient_is_checked_only_where_it_is_defined() -> None:
    """A square root of an affine function, negative on half of the points."""
    network = from_model(one("Sqrt", [1, 1]))
    problem = LipschitzProblem(network, Box(0.25, 1, 1))
    assert lipyomo.solve(problem).upper == pytest.approx(1.0, rel=1e-5)


def test_a_wrong_network_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tolerance of squares and exponentials is no licence."""
    from lipyomo.networks import activations
    from lipyomo.networks.activations import Power

    monkeypatch.setattr(activations, "HALVES", (Power(3.0), Power(3.0)))
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Mul", ["a", "x"], ["y"])]
    with pytest.raises(ImportRefused, match="disagree"):
        from_model(model(nodes, [1, 3]))
