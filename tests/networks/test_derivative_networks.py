"""Derivatives of networks as networks: by differences in 60 digits, by torch, by composition."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from mpmath import mp, mpf

from fuzz.fuzz_derivatives import SMOOTH
from lipyomo import Box, Curve, Layer, LipschitzProblem, Network, networks, solve, value_range
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Elu, Exp, Log, Power, activation


def made(sizes: tuple[int, ...], kind: str, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(sizes))
    weights = [rng.normal(size=(after, before)) for before, after in pairs]
    biases = [rng.normal(size=after) for _, after in pairs]
    return Network.from_arrays(weights, biases, activation=kind)


def along(network: Network, kind: str, x: np.ndarray, v: np.ndarray, order: int) -> list[float]:
    """Derivatives of all outputs at x along v, from differences in 60 digits."""

    @cache  # differences of all outputs are taken at the same points
    def values(t: mpf) -> list[mpf]:
        h = [mpf(float(a)) + t * mpf(float(b)) for a, b in zip(x, v, strict=True)]
        for place, layer in enumerate(network.layers):
            rows = zip(layer.dense_weight.tolist(), layer.bias.tolist(), strict=True)
            h = [mp.fdot(row, h) + bias for row, bias in rows]
            if place < len(network.layers) - 1:
                h = [SMOOTH[kind](z) for z in h]
        return h

    with mp.workdps(60):
        return [
            float(mp.diff(lambda t, k=k: values(t)[k], 0, order)) for k in range(network.output_dim)
        ]


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [*((kind, (3, 3, 2, 2)) for kind in SMOOTH), ("tanh", (2, 3, 1)), ("tanh", (2, 2, 2, 2, 1))],
)
def test_derivatives_are_those_of_differences_in_many_digits(
    kind: str, sizes: tuple[int, ...]
) -> None:
    network, rng = made(sizes, kind), np.random.default_rng(1)
    d, m = network.input_dim, network.output_dim
    x, v = rng.uniform(-1, 1, d), rng.normal(size=d)
    last = networks.gradient(network, m - 1).forward(x)
    whole = networks.jacobian(network).forward(x).reshape(m, d)
    curved = networks.hessian(network).forward(x).reshape(d, d)
    for k, axis in enumerate(np.eye(d)):
        true = along(network, kind, x, axis, 1)
        np.testing.assert_allclose(whole[:, k], true, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(last[k], true[-1], rtol=1e-9, atol=1e-10)
    second = along(network, kind, x, v, 2)
    np.testing.assert_allclose(v @ curved @ v, second[0], rtol=1e-8, atol=1e-9)
    for order in (1, 2, 3):
        found = networks.directional(network, v, order).forward(x)
        true = along(network, kind, x, v, order)
        np.testing.assert_allclose(found, true, rtol=1e-7, atol=1e-8)


def test_jacobians_of_few_inputs_and_many_outputs_are_the_same_forwards() -> None:
    wide, narrow = made((1, 4, 3, 5), "tanh"), made((5, 3, 4, 1), "tanh")
    for network in (wide, narrow):
        x = np.linspace(-1, 1, network.input_dim)
        found = networks.jacobian(network)
        assert found.output_shape == (network.output_dim, network.input_dim)
        np.testing.assert_allclose(
            found.forward(x), network.jacobian_at(x).reshape(-1), rtol=1e-12, atol=1e-13
        )


def test_sparse_weights_have_derivatives() -> None:
    rng = np.random.default_rng(3)
    full = [
        rng.normal(size=shape) * (rng.random(shape) < 0.5) for shape in ((4, 3), (5, 4), (2, 5))
    ]
    dense = Network.from_arrays(full, activation="tanh")
    thin = Network.from_arrays([sp.csr_array(one) for one in full], activation="tanh")
    x = np.array([0.3, -0.2, 0.7])
    for made_of in (networks.jacobian, networks.hessian, networks.gradient):
        np.testing.assert_allclose(made_of(thin).forward(x), made_of(dense).forward(x), atol=1e-14)


def test_sums_of_kinds_in_a_layer_and_powers_have_derivatives() -> None:
    """exp, log, powers and identities: ``x e^(2x) + log(x + 2) + x^3 + sqrt(x + 2) + x``."""
    curves = [
        Curve(Exp(), [0]),
        Curve(Log(), [1]),
        Curve(Power(3.0), [2]),
        Curve(Power(0.5), [3]),
    ]
    first = Layer([[2.0], [1], [1], [1], [1]], [0.0, 2, 0, 2, 0], curves=curves)
    network = Network([first, Layer([[1.0, 1, 1, 1, 1]], [0.0])])
    x = np.array([0.4])
    slope = 2 * np.exp(0.8) + 1 / 2.4 + 3 * 0.16 + 0.5 / 2.4**0.5 + 1
    bend = 4 * np.exp(0.8) - 1 / 2.4**2 + 6 * 0.4 - 0.25 * 2.4**-1.5
    assert networks.gradient(network).forward(x) == pytest.approx(slope, rel=1e-12)
    assert networks.hessian(network).forward(x) == pytest.approx(bend, rel=1e-12)
    assert networks.directional(network, [1.0], 4).forward(x) == pytest.approx(
        16 * np.exp(0.8) - 6 / 2.4**4 - 0.5 * 0.5 * 1.5 * 2.5 * 2.4**-3.5, rel=1e-12
    )


def test_gradients_of_gradients_are_hessians() -> None:
    network = made((2, 4, 3, 1), "tanh")
    twice = networks.jacobian(networks.gradient(network))
    x = np.random.default_rng(0).uniform(-1, 1, (5, 2))
    whole = networks.hessian(network).forward(x)
    np.testing.assert_allclose(twice.forward(x), whole, rtol=1e-9, atol=1e-9)


def test_inputs_keep_their_names_and_shapes() -> None:
    network = made((2, 3, 1), "tanh")
    network.input_names = ["t", "x"]
    for found in (
        networks.gradient(network),
        networks.hessian(network),
        networks.square(network),
        networks.residual(network, lambda u, x: u.dt * x.x),
    ):
        assert tuple(found.input_names or ()) == ("t", "x")


def test_products_squares_and_quotients() -> None:
    f, g = made((2, 3, 2), "tanh", 1), made((2, 4, 1), "sin", 2)
    x = np.random.default_rng(0).uniform(-1, 1, (6, 2))
    a, b = f.forward(x), g.forward(x)
    np.testing.assert_allclose(networks.product(f, g).forward(x), a * b, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(networks.product(f, f).forward(x), a * a, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(networks.square(g).forward(x), b * b, rtol=1e-12)
    np.testing.assert_allclose(networks.quotient(f, g).forward(x), a / b, rtol=1e-10)


def test_products_with_factors_that_hardly_change_keep_their_digits() -> None:
    still = Network.from_arrays([[[1e-9]], [[1.0]]], [[0.5], [0.0]], activation="sigmoid")
    moving = Network.from_arrays([[[1e3]], [[1.0]]], activation="sin")
    x = np.array([[0.1], [0.7]])
    expected = still.forward(x) * moving.forward(x)
    for found in (networks.product(still, moving), networks.product(moving, still)):
        np.testing.assert_allclose(found.forward(x), expected, rtol=1e-13)


def test_they_compose_with_other_networks() -> None:
    f = made((2, 3, 1), "tanh")
    grad = networks.gradient(f)
    x = np.array([0.3, -0.2])
    twice = networks.affine_after(grad, [[2.0, 0.0], [0.0, 2.0]])
    assert networks.difference(twice, grad).forward(x) == pytest.approx(grad.forward(x))
    stepped = networks.compose(f, networks.difference(made((2, 3, 2), "sin"), grad))
    assert np.isfinite(stepped.forward(x)).all()
    policy = Network.from_arrays([[[-0.5, 0.0]]])
    plant = networks.residual(
        Network.from_arrays([np.eye(3)]), lambda u, x: [x[0] + 0.1 * x[1], x[1] + x[2] * x[2]]
    )
    assert networks.unroll(plant, policy, 2).forward(x).shape == (2,)


def test_residuals_of_a_solution_are_zero() -> None:
    """u = sin(x - t) solves u_t + u_x = 0, and u_xx + u = 0; sin(t) e^x needs a product."""
    wave = Network.from_arrays([[[-1.0, 1.0]], [[1.0]]], activation="sin")
    wave.input_names = ["t", "x"]
    zero = networks.residual(wave, lambda u, x: [u.dt + u.dx, u.dxx + u, u.d("t", "x") - u.d(0, 1)])
    points = np.random.default_rng(0).uniform(-2, 2, (9, 2))
    assert np.abs(zero.forward(points)).max() < 1e-14
    source = networks.residual(
        wave, lambda u, x: 2 * (1 - u) / 4 + np.sin(x.t) * np.exp(x.x) - x[0] ** 2 / (3 + x[1] ** 2)
    )
    t, x = points.T
    true = (1 - np.sin(x - t)) / 2 + np.sin(t) * np.exp(x) - t * t / (3 + x * x)
    np.testing.assert_allclose(source.forward(points)[:, 0], true, rtol=1e-12, atol=1e-12)


def test_ranges_and_constants_of_derivatives_are_exact() -> None:
    """sin(2 x): the gradient lies in [-2, 2], and its constant is 4."""
    wave = Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")
    grad = networks.gradient(wave)
    found = value_range(grad, Box(-2, 2, 1))
    assert found.low[0] == pytest.approx(-2.0)
    assert found.high[1] == pytest.approx(2.0)
    assert solve(LipschitzProblem(grad, Box(-2, 2, 1))).upper == pytest.approx(4.0, rel=1e-5)


def test_what_has_no_derivative_is_refused_by_name() -> None:
    with pytest.raises(NetworkError, match="kinks"):
        networks.gradient(made((2, 3, 1), "relu"))
    steep = Network.from_arrays([[[1.0]], [[1.0]]], activation=Elu(0.5))
    with pytest.raises(NetworkError, match=r"elu\(0.5\) jumps at 0"):
        networks.gradient(steep)
    with pytest.raises(NetworkError, match="derivatives of mish are not supported"):
        networks.gradient(Network.from_arrays([[[1.0]], [[1.0]]], activation=activation("mish")))
    smooth = made((2, 3, 1), "tanh")
    with pytest.raises(NetworkError, match="there is no output 1"):
        networks.gradient(smooth, 1)
    with pytest.raises(NetworkError, match="beyond order 3"):
        networks.directional(smooth, [1.0, 0.0], 4)
    with pytest.raises(NetworkError, match="direction has 1 entries"):
        networks.directional(smooth, [1.0])
    with pytest.raises(NetworkError, match="there is no input 2"):
        networks.residual(smooth, lambda u, x: u.d(2))
    with pytest.raises(NetworkError, match="'dt' is no derivative"):
        networks.residual(smooth, lambda u, x: u.dt)
    with pytest.raises(NetworkError, match="what the expression returns"):
        networks.residual(smooth, lambda u, x: 1.0)
    with pytest.raises(NetworkError, match="numpy's arctan"):
        networks.residual(smooth, lambda u, x: np.arctan(u))
