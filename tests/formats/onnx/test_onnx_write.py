"""A written network reads back as the same function, with nothing rounded."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx_builder import run

from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx import from_model, load, to_onnx, write
from lipyomo.networks.activations import Activation, activation, activations
from lipyomo.networks.network import Curve, Layer, Network

SLOPES = st.sampled_from([-2.0, -1.0, -0.3, 0.0, 0.01, 0.1, 0.25, 0.5, 1.0, 1.5, 3.0])


@st.composite
def networks(draw: st.DrawFn) -> Network:
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    sizes = draw(st.lists(st.integers(1, 5), min_size=2, max_size=4))
    same = draw(st.booleans())
    kind = draw(st.sampled_from([np.float32, np.float64]))
    layers = []
    for inputs, units in itertools.pairwise(sizes):
        count = 1 if same else units
        left = [draw(SLOPES) for _ in range(count)]
        right = [draw(SLOPES) for _ in range(count)]
        weight = rng.normal(size=(units, inputs)).astype(kind)
        layers.append(Layer(weight, rng.normal(size=units).astype(kind), left, right))
    layers.append(Layer(rng.normal(size=(2, sizes[-1])).astype(kind), np.zeros(2)))
    return Network(layers)


@settings(max_examples=30, deadline=None)
@given(networks())
def test_round_trip(network: Network) -> None:
    again = from_model(to_onnx(network))
    assert again.input_dim == network.input_dim
    assert again.kinked_units <= network.kinked_units
    points = np.random.default_rng(0).normal(scale=3.0, size=(20, network.input_dim))
    expected = network.forward(points)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(again.forward(points), expected, atol=1e-12 * scale, rtol=0)


@settings(max_examples=30, deadline=None)
@given(networks())
def test_onnxruntime_computes_the_written_network(network: Network) -> None:
    points = np.random.default_rng(1).normal(size=(5, network.input_dim)).astype(np.float32)
    expected = network.forward(points)
    scale = 1.0 + np.abs(expected).max()
    found = run(to_onnx(network), points, ["N", network.input_dim])
    np.testing.assert_allclose(found, expected, atol=1e-4 * scale, rtol=0)


def one_layer(left: object, right: object = 1.0, kind: type = np.float32) -> Network:
    rng = np.random.default_rng(2)
    weights = [rng.normal(size=s).astype(kind) for s in ((3, 2), (1, 3))]
    return Network([Layer(weights[0], np.zeros(3), left, right), Layer(weights[1], np.zeros(1))])


@pytest.mark.parametrize(
    ("left", "right", "operators"),
    [
        (0.0, 1.0, ["Relu"]),
        (-1.0, 1.0, ["Abs"]),
        (0.25, 1.0, ["LeakyRelu"]),
        (0.1, 1.0, ["PRelu"]),
        ([0.0, 0.5, 1.0], 1.0, ["PRelu"]),
        (0.5, 2.0, ["PRelu", "Mul"]),
        (1.0, 0.0, ["Relu", "Neg", "Relu", "Mul", "Mul", "Sub"]),
    ],
)
def test_plainest_operators(left: object, right: float, operators: list[str]) -> None:
    proto = to_onnx(one_layer(left, right))
    found = [node.op_type for node in proto.graph.node if node.op_type != "Gemm"]
    assert found == operators
    again = from_model(proto)
    assert again.kinked_units == one_layer(left, right).kinked_units


@pytest.mark.parametrize(("left", "right"), [(0.3, 0.7), (1.0, 0.0), (-0.1, 3.0)])
def test_pairs_of_relus_read_back_as_one_unit(left: float, right: float) -> None:
    again = from_model(to_onnx(one_layer(left, right, np.float64)))
    assert again.sizes == (2, 3, 1)
    assert again.kinked_units == 3


def test_weights_are_not_rounded(tmp_path: Path) -> None:
    for kind, element in (
        (np.float32, onnx.TensorProto.FLOAT),
        (np.float64, onnx.TensorProto.DOUBLE),
    ):
        network = one_layer(0.0, kind=kind)
        path = tmp_path / "net.onnx"
        write(network, path)
        assert {t.data_type for t in onnx.load(path).graph.initializer} == {element}
        again = load(path)
        for old, new in zip(network.layers, again.layers, strict=True):
            assert np.array_equal(old.dense_weight, new.dense_weight)
            assert np.array_equal(old.bias, new.bias)
            assert np.array_equal(old.left, new.left)


def test_sparse_layers_are_written() -> None:
    import scipy.sparse as sp

    weight = sp.random_array((40, 30), density=0.05, rng=np.random.default_rng(0), format="csr")
    network = Network([Layer(weight, np.ones(40), 0.0, 1.0), Layer(np.ones((1, 40)), [0.0])])
    points = np.random.default_rng(1).normal(size=(4, 30))
    again = from_model(to_onnx(network))
    np.testing.assert_allclose(again.forward(points), network.forward(points), rtol=1e-12)


def test_path_is_written(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    proto = to_onnx(one_layer(0.0), path)
    assert onnx.load(path).graph.name == proto.graph.name


KINDS = [
    activation(name, **parameters)
    for name, parameters in (
        *((name, {}) for name in activations() if name not in ("two_slope", "selu", "quick_gelu")),
        ("elu", {"alpha": 0.25}),
        ("celu", {"alpha": 0.5}),
        ("selu", {"alpha": 1.5, "gamma": 1.25}),
        ("gelu", {"approximate": "tanh"}),
        ("swish", {"beta": 1.702}),
        ("softplus", {"beta": 2.0}),
    )
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_smooth_units_read_back(kind: Activation) -> None:
    rng = np.random.default_rng(0)
    single = np.float32 if "celu" in kind.name else np.float64  # ONNX has Celu in float32 only
    curves = [Curve(kind, [0, 2, 5]), Curve(activation("tanh"), [1])]
    W, V, U = (rng.normal(size=s).astype(single) for s in ((7, 3), (4, 7), (2, 4)))
    first = Layer(W, rng.normal(size=7).astype(single), 0.25, 1.0, curves)
    second = Layer(V, np.zeros(4), curves=[Curve(kind, range(4))])
    network = Network([first, second, Layer(U, [0.5, 1.0])])
    again = from_model(to_onnx(network))
    x = rng.normal(scale=2.0, size=(30, 3))
    np.testing.assert_allclose(again.forward(x), network.forward(x), rtol=0, atol=1e-12)
    assert sum(again.activations.values()) == sum(network.activations.values())
    assert again.kinked_units == 3


def test_parameters_that_onnx_would_round_are_refused() -> None:
    layer = Layer(np.eye(2), np.zeros(2), curves=[Curve(activation("elu", alpha=0.1), [0])])
    celu = Layer(np.eye(2) / 3, np.zeros(2), curves=[Curve(activation("celu", alpha=0.5), [0])])
    with pytest.raises(NetworkError, match=r"celu\(0.5\).*float32.*Remedy"):
        to_onnx(Network([celu]))
    with pytest.raises(NetworkError, match=r"elu\(0.1\).*float32.*Remedy"):
        to_onnx(Network([layer]))
