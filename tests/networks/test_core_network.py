"""The network form: evaluation, Jacobians and derived networks agree with each other."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import lipyomo
from lipyomo import Box, LipschitzProblem
from lipyomo.base.errors import NetworkError
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import (
    LEFT,
    OPEN,
    RIGHT,
    count_open,
    decide,
    open_phases,
)
from lipyomo.problems.affine.signal import affine_pieces
from networks import from_pattern, mixed_network, random_network, small_networks, to_pattern

POINTS = np.random.default_rng(0).uniform(-2, 2, (40, 5))


@settings(max_examples=25, deadline=None)
@given(network=small_networks(inputs=5))
def test_jacobians_are_the_derivative(network: Network) -> None:
    points = POINTS[:, : network.input_dim]
    for x in points[:10]:
        pattern = network.pattern(x)
        jacobian = network.jacobian(pattern)
        nearest = min(
            (
                np.abs(z[layer.kinked]).min(initial=1.0)
                for z, layer in zip(network.preactivations(x), network.hidden, strict=True)
            ),
            default=1.0,
        )
        if nearest < 1e-3:
            continue
        steps = 1e-7 * np.eye(x.size)
        slopes = (network.forward(x + steps) - network.forward(x - steps)) / 2e-7
        np.testing.assert_allclose(jacobian, slopes.T, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(network=small_networks(inputs=5))
def test_affine_pieces_and_gradients(network: Network) -> None:
    points = POINTS[:, : network.input_dim]
    c = np.linspace(1.0, -0.5, network.output_dim)
    gradients = network.gradients(points, c)
    for x, gradient in zip(points, gradients, strict=True):
        pattern = network.pattern(x)
        pieces = affine_pieces(network, pattern)
        for (gain, offset), z in zip(pieces, network.preactivations(x), strict=False):
            np.testing.assert_allclose(gain @ x + offset, z, atol=1e-9)
        np.testing.assert_allclose(pieces[-1][0] @ x + pieces[-1][1], network.forward(x), atol=1e-9)
        np.testing.assert_allclose(pieces[-1][0], network.jacobian(pattern), atol=1e-12)
        np.testing.assert_allclose(c @ network.jacobian(pattern), gradient, atol=1e-9)


def test_derived_networks_compute_the_same() -> None:
    plain = mixed_network(3, (5, 6, 5, 3))
    middle = Layer(np.eye(6) + 0.5, np.ones(6), 2.0, 2.0)
    network = Network([plain.layers[0], middle, *plain.layers[1:]])
    exact = network.fused()
    np.testing.assert_allclose(exact.forward(POINTS), network.forward(POINTS), rtol=1e-12)
    fused = network.fused(rounding=True)
    assert len(fused.hidden) == 2
    np.testing.assert_allclose(fused.forward(POINTS), network.forward(POINTS), rtol=1e-12)
    C = np.array([[1.0, -1.0, 0.0], [0.5, 0.5, 2.0]])
    np.testing.assert_allclose(
        network.with_functional(C).forward(POINTS), network.forward(POINTS) @ C.T, rtol=1e-9
    )


def test_sparse_layers_compute_the_same() -> None:
    dense = random_network(4, (5, 6, 4, 2))
    layers = [
        Layer(sp.csr_array(layer.weight), layer.bias, layer.left, layer.right)
        for layer in dense.layers
    ]
    sparse = Network(layers)
    assert sp.issparse(sparse.layers[0].weight)
    np.testing.assert_allclose(sparse.forward(POINTS), dense.forward(POINTS), rtol=1e-12)
    pattern = dense.pattern(POINTS[0])
    np.testing.assert_allclose(sparse.jacobian(pattern), dense.jacobian(pattern), rtol=1e-12)
    np.testing.assert_allclose(
        sparse.gradients(POINTS, [1.0, 2.0]), dense.gradients(POINTS, [1.0, 2.0]), rtol=1e-12
    )
    np.testing.assert_allclose(sparse.fused().forward(POINTS), dense.forward(POINTS), rtol=1e-12)


def test_units_on_the_output_get_an_identity_behind_them() -> None:
    network = Network([Layer([[1.0], [-1.0]], [0.0, 0.0], 0.0, 1.0)])
    assert network.sizes == (1, 2, 2)
    assert network.forward([-3.0]).tolist() == [0.0, 3.0]
    assert network.kinked_units == 2


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Network([]), "at least one layer"),
        (lambda: Network.from_arrays([[[1.0, 2.0]], [[1.0, 1.0]]]), "1 units, but layer 1 takes 2"),
        (lambda: Network.from_arrays([[[np.nan]]]), "NaN"),
        (lambda: Network.from_arrays([[[1.0]]], [[np.inf]]), "infinite"),
        (lambda: Network.from_arrays([[[1.0]]], [[1.0, 2.0]]), "2 entries for 1 units"),
        (lambda: Network.from_arrays([["a"]]), "must be real numbers"),
        (lambda: Network.from_arrays([[[1.0]]], []), "0 biases"),
        (lambda: Network.from_arrays([np.zeros((2, 2, 2))]), "3 axes"),
        (lambda: random_network(0, (2, 2)).forward([1.0]), "takes 2 inputs"),
        (lambda: random_network(0, (2, 2)).with_functional([1.0]), "1 entries"),
    ],
)
def test_malformed_networks_are_refused(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(NetworkError, match=message):
        build()


def test_phases_come_and_go() -> None:
    network = mixed_network(1, (2, 5, 4, 2))
    start = open_phases(network)
    assert count_open(start) == network.kinked_units
    pattern = network.pattern(POINTS[0, :2])
    phases = from_pattern(network, pattern)
    assert count_open(phases) == 0
    np.testing.assert_array_equal(network.jacobian(to_pattern(phases)), network.jacobian(pattern))


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=6))
def test_decide_closes_units_with_one_side(ranges: list[tuple[int, int]]) -> None:
    low = np.array([float(a) for a, _ in ranges])
    high = np.array([float(a + w) for a, w in ranges])
    start = (np.full(len(ranges), OPEN, dtype=np.int8),)
    closed = decide(start, [low], [high])[0]
    for phase, a, b in zip(closed, low, high, strict=True):
        assert phase == (RIGHT if a >= 0 else LEFT if b <= 0 else OPEN)
    assert (start[0] == OPEN).all()


@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
def test_a_network_keeps_what_it_was_made_of(kind: str) -> None:
    weight = np.array([[1.0, 2.0], [0.0, -3.0]])
    given = {"dense": np.array, "csr": sp.csr_array, "csc": sp.csc_array}[kind](weight)
    bias = np.array([0.5, -0.5])
    network = Network([Layer(given, bias, 0.0, 1.0), Layer(np.ones((1, 2)), [0.0])])
    problem = LipschitzProblem(network, Box(-1, 1, 2))
    before = lipyomo.solve(problem)
    data = given if isinstance(given, np.ndarray) else given.data
    data *= 7.0
    bias += 5.0
    assert np.array_equal(network.layers[0].dense_weight, weight)
    assert network.forward([0.25, 0.5]) == pytest.approx([1.75])
    after = lipyomo.solve(problem)
    assert (after.lower, after.upper) == (before.lower, before.upper)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("of", ["itself", "a copy", "a pickle", "fused"])
def test_what_a_network_hands_out_cannot_be_written_to(sparse: bool, of: str) -> None:
    weight = np.array([[1.0, 2.0], [0.0, -3.0]])
    first = Layer(sp.csr_array(weight) if sparse else weight, [0.5, -0.5], 0.0, 1.0)
    network = Network([first, Layer(np.ones((1, 2)), [0.0])])
    network = {
        "itself": lambda: network,
        "a copy": lambda: copy.deepcopy(network),
        "a pickle": lambda: pickle.loads(pickle.dumps(network)),
        "fused": network.fused,
    }[of]()
    layer = network.layers[0]
    matrix = layer.weight if isinstance(layer.weight, np.ndarray) else layer.weight.data
    for values in (matrix, layer.bias, layer.left, layer.right, layer.row_sums, layer.kinked):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 0


def test_bounds_of_a_box_cannot_be_written_to() -> None:
    low = np.zeros(2)
    box = Box(low, 1.0, 2)
    low[0] = -9.0
    assert box.lower[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        box.upper[0] = 9.0
