"""Networks made of networks: the parts' numbers exactly, and constants by brute force."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import lipyomo
from lipyomo import Box, Curve, Layer, LipschitzProblem, Network, networks
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import activation
from networks import integer_network, mixed_network, random_network, small_networks
from oracle import exact_constant


def exact_values(network: Network, x: list[Fraction]) -> list[Fraction]:
    """The values of a piecewise-linear network at a point, in rational arithmetic."""
    h = x
    for layer in network.layers:
        z = [
            sum((Fraction(w) * v for w, v in zip(row, h, strict=True)), Fraction(bias))
            for row, bias in zip(layer.dense_weight.tolist(), layer.bias.tolist(), strict=True)
        ]
        slopes = zip(layer.left.tolist(), layer.right.tolist(), strict=True)
        h = [v * Fraction(r if v >= 0 else a) for v, (a, r) in zip(z, slopes, strict=True)]
    return h


def points(d: int, seed: int, count: int = 4) -> list[list[Fraction]]:
    rng = np.random.default_rng(seed)
    return [[Fraction(v) for v in row] for row in rng.normal(size=(count, d)).tolist()]


def same_inputs(first: Network, seed: int, outputs: int, depth: int) -> Network:
    """Another network of the same inputs."""
    return mixed_network(seed, (first.input_dim, *[3] * depth, outputs))


@given(small_networks(max_units=6), st.integers(0, 2**16), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_numbers_are_those_of_the_parts(f: Network, seed: int, depth: int) -> None:
    m = f.output_dim
    g = same_inputs(f, seed, m, depth)
    after = mixed_network(seed + 1, (m, 2, 2))
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(2, m)), rng.normal(size=2)
    for x in points(f.input_dim, seed):
        left, right = exact_values(f, x), exact_values(g, x)
        assert exact_values(networks.parallel(f, g, f), x) == left + right + left
        expected = [p - q for p, q in zip(left, right, strict=True)]
        assert exact_values(networks.difference(f, g), x) == expected
        assert exact_values(networks.compose(after, f), x) == exact_values(after, left)
        expected = [
            sum((Fraction(a) * v for a, v in zip(row, left, strict=True)), Fraction(c))
            for row, c in zip(A.tolist(), b.tolist(), strict=True)
        ]
        assert exact_values(networks.affine_after(f, A, b), x) == expected


@given(st.integers(0, 2**16), st.integers(1, 3), st.booleans())
@settings(max_examples=15, deadline=None)
def test_loops_are_their_steps(seed: int, steps: int, smooth: bool) -> None:
    rng = np.random.default_rng(seed)
    A, B, c = rng.normal(size=(2, 2)), rng.normal(size=(2, 1)), rng.normal(size=2)
    kind = "tanh" if smooth else "relu"
    weights = [rng.normal(size=(3, 2)), rng.normal(size=(1, 3))]
    policy = Network.from_arrays(weights, [rng.normal(size=3), [0.1]], activation=kind)
    loop = networks.unroll((A, B, c), policy, steps)
    assert loop.bent_units == 3 * steps
    x = rng.normal(size=(5, 2))
    expected = x
    for _ in range(steps):
        expected = expected @ A.T + policy(expected) @ B.T + c
    np.testing.assert_allclose(loop(x), expected, rtol=1e-11, atol=1e-12)


def test_nonlinear_dynamics_in_a_loop_are_exact() -> None:
    plant, policy = mixed_network(3, (3, 4, 2)), mixed_network(4, (2, 3, 1))
    loop = networks.unroll(plant, policy, 3)
    for x in points(2, 0):
        expected = x
        for _ in range(3):
            expected = exact_values(plant, expected + exact_values(policy, expected))
        assert exact_values(loop, x) == expected


@given(small_networks(max_units=5, inputs=2), st.integers(0, 2**16))
@settings(max_examples=8, deadline=None)
def test_constants_of_differences(f: Network, seed: int) -> None:
    d, m = f.input_dim, f.output_dim
    g = same_inputs(f, seed, m, 1)
    problem = LipschitzProblem(networks.difference(f, g), Box(-1, 1, d), output_norm="linf")
    result = lipyomo.solve(problem)
    assert result.is_exact
    assert result.lower == pytest.approx(exact_constant(problem), rel=2e-6, abs=1e-12)


def test_constants_of_compositions_and_loops() -> None:
    f, g = integer_network(1, (2, 4, 2)), random_network(2, (2, 3, 1))
    policy = random_network(3, (2, 3, 1))
    loop = networks.unroll(([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]]), policy, 2)
    for network in (networks.compose(g, f), networks.parallel(f, g), loop):
        problem = LipschitzProblem(network, Box(-1, 1, 2), output_norm="linf")
        result = lipyomo.solve(problem)
        assert result.is_exact
        assert result.lower == pytest.approx(exact_constant(problem), rel=2e-6)


def test_constants_of_smooth_and_mixed_differences() -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 2)), rng.normal(size=(1, 4))]
    smooth = Network.from_arrays(weights, activation="tanh")
    kinked = Network.from_arrays(weights)
    network = networks.difference(smooth, kinked)
    assert network.activations == {"tanh": 4}
    assert network.kinked_units == 4
    result = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2)), time_limit=20)
    assert result.is_exact
    x = rng.uniform(-1, 1, (4000, 2))
    slopes = network.gradients(x, [1.0])
    sampled = np.abs(slopes).sum(axis=1).max()
    assert 0.95 * result.upper < sampled <= result.upper


def test_a_network_minus_itself_is_the_constant_zero() -> None:
    for f in (random_network(0, (3, 5, 4, 2)), Network([Layer(np.eye(2), [0.3, 0.1])])):
        problem = LipschitzProblem(networks.difference(f, f), Box(-1, 1, f.input_dim))
        assert problem.is_constant
        result = lipyomo.solve(problem)
        assert (result.lower, result.upper) == (0.0, 0.0)


def test_equal_parts_are_shared() -> None:
    f = random_network(0, (3, 6, 5, 1))
    g = Network([*f.layers[:-1], Layer(2.0 * f.head.weight, f.head.bias)])
    problem = LipschitzProblem(networks.difference(f, g), Box(-1, 1, 3))
    assert problem.reduced.problem.network.kinked_units == f.kinked_units
    single = LipschitzProblem(f, Box(-1, 1, 3))
    assert lipyomo.solve(problem).lower == pytest.approx(lipyomo.solve(single).lower, rel=1e-6)


def test_depths_may_differ_and_constants_are_networks() -> None:
    deep = random_network(1, (2, 3, 3, 2))
    affine = Network([Layer([[1.0, 2.0], [0.1, 0.3]], [0.1, 0.7])])
    constant = Network([Layer(np.zeros((2, 2)), [1.0, -1.0])])
    for f, g in ((deep, affine), (affine, deep), (affine, constant), (constant, deep)):
        made = networks.difference(f, g)
        for x in points(2, 7):
            pairs = zip(exact_values(f, x), exact_values(g, x), strict=True)
            assert exact_values(made, x) == [p - q for p, q in pairs]
    whole = Network([Layer([[1.0, 2.0], [0.5, 3.0]], [2.0, 1.0])])
    assert len(networks.difference(whole, constant).hidden) == 0


def test_sparse_networks_stay_sparse() -> None:
    dense = random_network(0, (4, 3, 2))
    layers = [layer.with_map(sp.csr_array(layer.weight), layer.bias) for layer in dense.layers]
    made = networks.difference(Network(layers), dense)
    assert all(sp.issparse(layer.weight) for layer in made.layers)
    assert not sp.issparse(networks.difference(dense, dense).layers[0].weight)


def test_smooth_units_keep_their_curves() -> None:
    tanh, sine = activation("tanh"), activation("sin")
    f = Network([Layer(np.eye(2), [0, 0], curves=[Curve(tanh, [0])]), Layer([[1, 1]], [0])])
    g = Network([Layer(-np.eye(2), [0, 0], 0, 1, [Curve(sine, [1])]), Layer([[1, 2]], [0])])
    x = np.random.default_rng(0).normal(size=(6, 2))
    np.testing.assert_allclose(networks.difference(f, g)(x), f(x) - g(x), rtol=1e-12)


def shaped(*shape: int, outputs: tuple[int, ...] | None = None) -> Network:
    size = int(np.prod(shape))
    out = int(np.prod(outputs or (1,)))
    return Network([Layer(np.ones((out, size)), np.zeros(out))], "net", shape, outputs)


def test_shapes_are_kept_where_they_agree() -> None:
    image, flat, batched = shaped(3, 2, 2), shaped(12), shaped(1, 3, 2, 2)
    for f, g in ((image, flat), (flat, image), (image, batched)):
        assert networks.difference(f, g).input_shape in ((3, 2, 2), (1, 3, 2, 2))
    head = shaped(2, outputs=(2, 3))
    assert networks.difference(head, shaped(2, outputs=(6,))).output_shape == (2, 3)
    assert networks.compose(shaped(6), head).input_shape == (2,)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: networks.difference(shaped(3, 2, 2), shaped(2, 2, 3)), "other axes"),
        (lambda: networks.difference(shaped(3), shaped(4)), "3 of shape"),
        (lambda: networks.difference(shaped(3), shaped(3, outputs=(2,))), "outputs"),
        (lambda: networks.compose(shaped(3), shaped(3)), "inputs"),
        (lambda: networks.affine_after(shaped(3), np.eye(2)), "2 columns"),
        (lambda: networks.affine_after(shaped(3), [[np.nan]]), "NaN"),
        (lambda: networks.parallel(), "one or more"),
        (lambda: networks.parallel(shaped(3), "net.onnx"), "net.onnx"),
        (lambda: networks.unroll((np.eye(2), np.eye(2)), shaped(2), 1), "3 inputs"),
        (lambda: networks.unroll((np.eye(2), [[1.0]]), shaped(2), 1), "rows"),
        (lambda: networks.unroll((np.eye(2),), shaped(2), 1), "parts"),
        (lambda: networks.unroll(3, shaped(2), 1), "matrices"),
        (lambda: networks.unroll((np.eye(2), np.ones((2, 1))), shaped(2), 0), "at least 1"),
        (lambda: networks.unroll((np.eye(2), np.eye(2)), shaped(2), 10**6), "the limit is 10000"),
    ],
)
def test_what_does_not_fit_is_refused(make: object, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        make()  # type: ignore[operator]


def test_networks_are_called_in_their_own_shapes() -> None:
    rng = np.random.default_rng(0)
    network = Network([Layer(rng.normal(size=(6, 12)), np.zeros(6))], "net", (3, 2, 2), (2, 3))
    x = rng.normal(size=(5, 3, 2, 2))
    flat = network.forward(x.reshape(5, 12))
    assert network(x).shape == (5, 2, 3)
    np.testing.assert_array_equal(network(x).reshape(5, 6), flat)
    np.testing.assert_array_equal(network(x.reshape(5, 12)), flat)
    np.testing.assert_allclose(network(x[0]), flat[0].reshape(2, 3), rtol=1e-12)
    np.testing.assert_allclose(network(x[0].ravel()), flat[0], rtol=1e-12)
    with pytest.raises(NetworkError, match="inputs"):
        network(x[..., 0])
