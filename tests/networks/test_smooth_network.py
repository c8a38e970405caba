"""Networks with smooth units: values, Jacobians, copies, digests, and what merging keeps."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import activation, activations
from lipyomo.networks.digest import network_digest
from lipyomo.networks.network import Curve, Layer, Network
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.merge import merge

TANH, SIN, COS, SIGMOID = (activation(name) for name in ("tanh", "sin", "cos", "sigmoid"))


def mixed(seed: int = 0) -> Network:
    """3-8-6-2 with tanh, sigmoid and ReLU units side by side."""
    rng = np.random.default_rng(seed)
    first = Layer(
        rng.normal(size=(8, 3)),
        rng.normal(size=8),
        0.0,
        1.0,
        [Curve(TANH, [5, 0, 3]), Curve(SIGMOID, [1, 2])],
    )
    second = Layer(rng.normal(size=(6, 8)), rng.normal(size=6), 0.1, 1.0, [Curve(SIN, [4])])
    return Network([first, second, Layer(rng.normal(size=(2, 6)), np.zeros(2))])


def slopes_by_differences(network: Network, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Jacobian by central differences."""
    moves = step * np.eye(network.input_dim)
    return (network.forward(x + moves) - network.forward(x - moves)).T / (2 * step)


def test_values_are_those_of_the_activations() -> None:
    layer = mixed().layers[0]
    z = np.linspace(-3, 3, 40).reshape(5, 8)
    expected = np.maximum(z, 0.0)
    expected[:, [0, 3, 5]] = np.tanh(z[:, [0, 3, 5]])
    expected[:, [1, 2]] = 1 / (1 + np.exp(-z[:, [1, 2]]))
    np.testing.assert_allclose(layer.activate(z), expected, rtol=1e-15)
    assert layer.curved.tolist() == [True, True, True, True, False, True, False, False]
    assert layer.kinked.tolist() == (~layer.curved).tolist()


@pytest.mark.parametrize("seed", range(5))
def test_jacobian_and_gradients_are_derivatives(seed: int) -> None:
    network = mixed(seed)
    points = np.random.default_rng(seed).normal(size=(7, 3))
    for x in points:
        found = slopes_by_differences(network, x)
        np.testing.assert_allclose(network.jacobian_at(x), found, atol=1e-7)
    rows = network.gradients(points, [1.0, -2.0])
    for x, row in zip(points, rows, strict=True):
        np.testing.assert_allclose(np.array([1.0, -2.0]) @ network.jacobian_at(x), row)


def test_jacobian_of_a_piecewise_linear_network_is_that_of_its_pattern() -> None:
    network = Network.from_arrays([np.eye(3), [[1.0, -2.0, 3.0]]])
    x = np.array([0.5, -1.0, 0.0])
    np.testing.assert_array_equal(network.jacobian_at(x), network.jacobian(network.pattern(x)))


def test_patterns_are_refused() -> None:
    network = mixed()
    on = tuple(np.ones(layer.units, dtype=bool) for layer in network.hidden)
    for ask in (lambda: network.pattern(np.zeros(3)), lambda: network.jacobian(on)):
        with pytest.raises(NetworkError, match=r"smooth units \(.*tanh.*\).*jacobian_at"):
            ask()


def test_smooth_units_at_limits_of_their_slopes() -> None:
    layer = Layer(np.eye(2), np.zeros(2), 0.3, 7.0, [Curve(SIN, [1])])
    assert (layer.left.tolist(), layer.right.tolist()) == ([0.3, -1.0], [7.0, 1.0])
    assert not layer.is_affine


def test_curves_of_one_activation_are_one() -> None:
    layer = Layer(
        np.eye(4), np.zeros(4), curves=[Curve(TANH, [3]), Curve(COS, [1]), Curve(TANH, [0])]
    )
    assert [(c.activation.name, c.units.tolist()) for c in layer.curves] == [
        ("tanh", [0, 3]),
        ("cos", [1]),
    ]


@pytest.mark.parametrize(
    ("curves", "says"),
    [
        ([Curve(TANH, [0]), Curve(SIN, [0])], "two curves"),
        ([Curve(TANH, [2])], "has unit 2"),
        ([TANH], "a curve"),
        (TANH, "the curves"),
    ],
)
def test_curves_that_do_not_fit_are_refused(curves: object, says: str) -> None:
    with pytest.raises(NetworkError, match=says):
        Layer(np.eye(2), np.zeros(2), curves=curves)  # type: ignore[arg-type]


@pytest.mark.parametrize("units", [[-1], [0.5], [1, 1], ["a"], [np.nan]])
def test_units_of_a_curve_are_indices(units: list[object]) -> None:
    with pytest.raises(NetworkError, match="units of a curve"):
        Curve(TANH, units)  # type: ignore[arg-type]


@pytest.mark.parametrize("again", [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n))])
def test_copies_are_the_same_network(again: object) -> None:
    network = mixed()
    other = again(network)  # type: ignore[operator]
    x = np.random.default_rng(0).normal(size=(9, 3))
    np.testing.assert_array_equal(network.forward(x), other.forward(x))
    assert network_digest(network) == network_digest(other)
    assert not other.layers[0].curves[0].units.flags.writeable


def test_digests_know_activations_and_their_units() -> None:
    chosen = [[Curve(TANH, [0])], [Curve(TANH, [1])], [Curve(SIN, [0])], []]
    head = Layer([[1.0, 1.0]], [0.0])
    networks = [Network([Layer(np.eye(2), np.zeros(2), -1.0, 1.0, c), head]) for c in chosen]
    assert len({network_digest(network) for network in networks}) == 4


def test_descriptions_name_the_units() -> None:
    assert mixed().describe() == "3-8-6-2, 14 units (3 tanh, 2 sigmoid, 1 sin, 8 two-slope)"
    one = Network([Layer(np.eye(2), np.zeros(2), curves=[Curve(TANH, [0, 1])])])
    assert one.describe() == "2-2-2, 2 units (tanh)"
    assert one.smooth
    assert not Network.from_arrays([np.eye(2), np.eye(2)]).smooth


def test_reflections_hold() -> None:
    z = np.linspace(-9, 9, 1001)
    reflected = []
    for name in activations():
        made = activation(name)
        if made.reflection is not None:
            reflected.append(name)
            of_value, of_argument = made.reflection
            found = of_value * made.value(z) + of_argument * z
            np.testing.assert_allclose(made.value(-z), found, atol=1e-14)
    assert {"tanh", "sin", "cos"} <= set(reflected)


def integers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Small quarters, whose sums and products are exact."""
    return rng.integers(-8, 9, shape) * 0.25


@pytest.mark.parametrize("kind", [TANH, COS, SIGMOID])
@pytest.mark.parametrize("seed", range(5))
def test_equal_and_opposite_rows_are_merged_where_that_is_right(kind: object, seed: int) -> None:
    rng = np.random.default_rng(seed)
    W, b = integers(rng, 9, 3), integers(rng, 9)
    W[3], b[3] = W[0], b[0]
    W[4], b[4] = -W[1], -b[1]
    W[5], b[5] = 2 * W[2], 2 * b[2]  # a multiple is another unit
    W[6], b[6] = W[2], b[2]  # two slopes
    W[8], b[8] = -W[7], -b[7]
    first = Layer(W, b, 0.0, 1.0, [Curve(kind, [0, 1, 2, 3, 4, 5])])  # type: ignore[arg-type]
    network = Network([first, Layer(integers(rng, 4, 9), np.zeros(4), curves=[Curve(TANH, [0])])])
    small = merge(network.fused()).network
    opposite = kind.reflection is not None  # type: ignore[attr-defined]
    assert small.hidden[0].curved.sum() == 4 + (not opposite)
    x = rng.normal(size=(20, 3))
    np.testing.assert_allclose(small.forward(x), network.forward(x), atol=1e-12)
    np.testing.assert_allclose(
        small.gradients(x, np.ones(4)), network.gradients(x, np.ones(4)), atol=1e-12
    )


def test_different_activations_of_equal_rows_stay_apart() -> None:
    W = np.ones((2, 2))
    layer = Layer(W, np.zeros(2), curves=[Curve(TANH, [0]), Curve(SIN, [1])])
    network = Network([layer, Layer([[1.0, 1.0]], [0.0])])
    assert merge(network).network.hidden[0].units == 2


def test_constant_smooth_units_and_sparse_weights() -> None:
    W = np.zeros((4, 3))
    W[1:] = np.eye(3)
    network = Network(
        [
            Layer(W, [0.7, 0.0, 1.0, -1.0], 0.5, 0.5, [Curve(TANH, [0, 2])]),
            Layer(np.ones((1, 4)), [0.0]),
        ]
    )
    x = np.random.default_rng(0).normal(size=(5, 3))
    expected = np.tanh(0.7) + 0.5 * x[:, 0] + np.tanh(x[:, 1] + 1) + 0.5 * (x[:, 2] - 1)
    np.testing.assert_allclose(network.fused().forward(x)[:, 0], expected)
    assert network.fused().hidden[0].curved.sum() == 2


def test_reduced_problems_are_the_same_function() -> None:
    network = mixed(3)
    domain = Box([-1.0, 0.3, -1.0], [1.0, 0.3, 2.0])
    problem = LipschitzProblem(network, domain, "l1", functional=[1.0, 2.0])
    small = problem.reduced
    x = np.array([0.2, 0.9])
    full = small.lift_point(x)
    np.testing.assert_allclose(small.problem.network.forward(x), network.forward(full))
    assert problem.value_at(full).value == pytest.approx(small.problem.value_at(x).value)


def test_functionals_of_smooth_networks() -> None:
    network, c = mixed(1), np.array([0.5, -3.0])
    x = np.random.default_rng(1).normal(size=(4, 3))
    found = network.with_functional(c)
    np.testing.assert_allclose(found.forward(x)[:, 0], network.forward(x) @ c)
    assert found.smooth


def test_networks_from_arrays() -> None:
    rng = np.random.default_rng(0)
    weights, biases = [rng.normal(size=(4, 3)), rng.normal(size=(2, 4))], [np.ones(4), np.zeros(2)]
    network = Network.from_arrays(weights, biases, activation="tanh")
    x = rng.normal(size=(5, 3))
    np.testing.assert_allclose(
        network.forward(x), np.tanh(x @ weights[0].T + 1) @ weights[1].T, rtol=1e-13
    )
    elu = activation("elu", alpha=0.5)
    assert Network.from_arrays(weights, activation=elu).activations == {"elu(0.5)": 4}
    for options in (
        {"activation": "tahn"},
        {"activation": "tanh", "slope": 0.1},
        {"activation": 3},
    ):
        with pytest.raises(NetworkError, match="Remedy"):
            Network.from_arrays(weights, **options)  # type: ignore[arg-type]
    with pytest.raises(NetworkError, match="at least one layer"):
        Network.from_arrays([])
