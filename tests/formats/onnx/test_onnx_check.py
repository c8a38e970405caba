"""The comparison with onnxruntime lets rounding pass and stops at real differences."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_builder import DOUBLE, model

from lipyomo.base.errors import ImportRefused
from lipyomo.formats.onnx import check_against_runtime, from_model, load, to_onnx, write
from lipyomo.formats.onnx.check import CheckFailed, rounding_tolerance
from lipyomo.networks.network import Layer, Network

RNG = np.random.default_rng(29)


def deep(kind=np.float32, scale: float = 1.0) -> Network:
    shapes = [(12, 5), (12, 12), (12, 12), (3, 12)]
    weights = [scale * RNG.normal(size=s).astype(kind) for s in shapes]
    return Network.from_arrays(weights, [RNG.normal(size=s[0]).astype(kind) for s in shapes])


def changed(network: Network, position: int, amount: float) -> Network:
    """The network with one weight changed."""
    layers = list(network.layers)
    weight = layers[position].dense_weight.copy()
    weight[0, 0] += amount
    old = layers[position]
    layers[position] = Layer(weight, old.bias, old.left, old.right)
    return Network(layers)


class Cube:
    """Points of a box, as a domain draws them."""

    def __init__(self, low: float, high: float, dimension: int) -> None:
        self.low, self.high, self.dimension = low, high, dimension
        self.drawn: list[np.ndarray] = []

    def sample(self, rng: np.random.Generator, n: int) -> np.ndarray:
        points = rng.uniform(self.low, self.high, size=(n, self.dimension))
        self.drawn.append(points)
        return points


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rounding_passes(scale: float) -> None:
    network = deep(scale=scale)
    assert check_against_runtime(network, to_onnx(network), samples=40) >= 0.0


def test_numbers_below_the_least_normal_one_are_rounded_by_more() -> None:
    rng = np.random.default_rng(3)
    faint = (1e-42 * rng.normal(size=(5, 3))).astype(np.float32)
    network = Network.from_arrays([faint, rng.normal(size=(2, 5)).astype(np.float32)])
    assert check_against_runtime(network, to_onnx(network), samples=40) > 0.0


@pytest.mark.parametrize("position", [0, 1, 2, 3])
def test_a_changed_weight_stops_the_import(position: int) -> None:
    network = deep()
    wrong = changed(network, position, 0.05)
    with pytest.raises(CheckFailed, match="disagree") as caught:
        check_against_runtime(wrong, to_onnx(network), samples=40)
    assert caught.value.difference > caught.value.tolerance > 0


def test_double_models_are_held_to_double_precision() -> None:
    network = deep(np.float64)
    model = to_onnx(network)
    assert check_against_runtime(network, model) < 1e-9
    with pytest.raises(CheckFailed):
        check_against_runtime(changed(network, 3, 1e-9), model, samples=40)


def test_points_of_the_domain_are_used() -> None:
    """A difference that shows far from the origin only."""
    relu = Network.from_arrays([np.eye(2), np.eye(2)], [np.full(2, -1000.0), np.zeros(2)])
    zero = Network.from_arrays([np.zeros((2, 2))])
    proto = to_onnx(zero)
    check_against_runtime(relu, proto, domain=Cube(-1.0, 1.0, 2))
    far = Cube(900.0, 1100.0, 2)
    with pytest.raises(CheckFailed):
        check_against_runtime(relu, proto, domain=far)
    assert len(far.drawn) == 1


def test_points_can_be_given() -> None:
    network = deep()
    proto = to_onnx(network)
    check_against_runtime(network, proto, points=np.zeros(5))
    from_model(proto, domain=Cube(0.0, 1.0, 5))


def test_file_and_cut(tmp_path) -> None:
    network = deep()
    path = tmp_path / "net.onnx"
    write(network, path)
    part = load(path, output="layer1.relu")
    assert part.output_dim == 12
    check_against_runtime(part, path, output="layer1.relu")


def test_large_offsets_inside_a_network() -> None:
    """Intermediate values of 1e6 leave float32 errors of 0.1; they are rounding."""
    nodes = [
        helper.make_node("Add", ["x", "big"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Sub", ["b", "big"], ["y"]),
    ]
    proto = model(nodes, ["N", 3], {"big": np.array([1e6])})
    network = from_model(proto)
    x = np.array([0.3, 1.0 / 3.0, 0.7])
    assert network.forward(x) == pytest.approx(x, abs=1e-9)
    precise = from_model(model(nodes, ["N", 3], {"big": np.array([1e6])}, kind=DOUBLE))
    assert np.array_equal(precise.forward(x), network.forward(x))


def test_offsets_that_cancel_within_a_layer() -> None:
    nodes = [
        helper.make_node("Add", ["x", "big"], ["a"]),
        helper.make_node("Sub", ["a", "big"], ["b"]),
        helper.make_node("Clip", ["b", "", "most"], ["y"]),
    ]
    constants = {"big": np.array([1e6]), "most": np.array(3.4e38)}
    network = from_model(model(nodes, ["N", 3], constants))
    assert network.sizes == (3, 3)
    nodes[1] = helper.make_node("Sub", ["a", "bigger"], ["b"])
    other = model(nodes, ["N", 3], {**constants, "bigger": np.array([1e6 + 2.0])})
    with pytest.raises(CheckFailed):
        check_against_runtime(network, other)


def test_tolerance_grows_with_magnitudes() -> None:
    network = deep()
    x = RNG.normal(size=(2, 5))
    near, far = (rounding_tolerance(network, s * x, 1e-7) for s in (1.0, 1e6))
    assert (far > near).all()
    assert (near < 1e-2).all()


def test_more_outputs_than_fit_into_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from lipyomo.formats.onnx import check

    network = deep()
    points = np.random.default_rng(0).normal(size=(5, 5))
    whole = check.rounding_tolerance(network, points, 2.0**-23)
    monkeypatch.setattr(check, "BATCH", 8 * 25)
    np.testing.assert_allclose(check.rounding_tolerance(network, points, 2.0**-23), whole)


def test_convolutions_in_float64_are_checked_by_the_evaluator_of_onnx() -> None:
    weight = np.random.default_rng(0).normal(size=(2, 1, 3, 3))  # the unit in question is on
    nodes = [helper.make_node("Conv", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    proto = model(nodes, [1, 1, 6, 6], {"w": weight}, kind=DOUBLE)
    network = from_model(proto)
    assert network.sizes == (36, 32, 32)
    with pytest.raises(CheckFailed):
        check_against_runtime(changed(network, 0, 1e-6), proto)


def test_bfloat16_says_what_to_do() -> None:
    kind = TensorProto.BFLOAT16
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", kind, [1, 3])],
        [helper.make_tensor_value_info("y", kind, None)],
        [helper.make_tensor("w", kind, [3, 2], [1.0, 2, 3, 4, 5, 6])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(ImportRefused, match="float32"):
        from_model(proto)
    np.testing.assert_array_equal(
        from_model(proto, check=False).head.dense_weight, [[1.0, 3, 5], [2, 4, 6]]
    )


def test_numbers_that_overflow_are_not_called_an_agreement() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"])]
    nodes.append(helper.make_node("MatMul", ["h", "w"], ["y"]))
    proto = model(nodes, [1, 3], {"w": np.full((3, 3), 1e38)})
    with pytest.raises(ImportRefused, match="overflow"):
        from_model(proto)


def test_differences_that_the_last_layer_explains_take_no_jacobians() -> None:
    network = deep()
    points = RNG.normal(size=(3, 5))
    whole = rounding_tolerance(network, points, 1e-7)
    small, large = 1e-3 * whole, 10.0 * whole
    part = rounding_tolerance(network, points, 1e-7, small)
    assert (part >= small).all()
    assert (part < whole).all()
    mixed = np.where(np.arange(3)[:, None] == 1, large, small)  # one that it does not explain
    np.testing.assert_array_equal(rounding_tolerance(network, points, 1e-7, mixed), whole)
