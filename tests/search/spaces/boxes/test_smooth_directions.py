"""Directions T of networks with smooth units: the search, its witness, and the other methods."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, Curve, Layer, LipschitzProblem, Network, activation
from lipyomo.methods.registry import methods
from lipyomo.search.spaces.boxes.ascent import smooth_incumbent
from samples import steepest

NORMS = ("linf", "l1", "l2")


def smooth_network(rng: np.random.Generator, sizes: tuple[int, ...], name: str) -> Network:
    """Dense layers of one smooth activation."""
    *hidden, last = (
        (rng.standard_normal((n, k)), rng.standard_normal(n)) for k, n in itertools.pairwise(sizes)
    )
    kind = activation(name)
    layers = [Layer(W, b, curves=(Curve(kind, np.arange(len(b))),)) for W, b in hidden]
    return Network([*layers, Layer(*last)])


@pytest.mark.parametrize(
    ("name", "input_norm", "output_norm"),
    [("tanh", "linf", "l2"), ("elu", "l1", "linf"), ("silu", "l2", "l1"), ("tanh", "l2", "l2")],
)
def test_the_constant_along_directions_is_between_samples_and_the_bound(
    name: str, input_norm: str, output_norm: str
) -> None:
    """Two directions that are no columns of the identity."""
    rng = np.random.default_rng(3)
    network = smooth_network(rng, (3, 4, 2), name)
    T = rng.standard_normal((3, 2))
    points = Box(-1, 1, 3).sample(rng, 2000)
    problem = LipschitzProblem(network, Box(-1, 1, 3), input_norm, output_norm, directions=T)
    found = lipyomo.solve(problem, gap=0.05, time_limit=60)
    best = max(problem.value_at(x).value for x in steepest(problem, points))
    assert best * (1 - 1e-9) <= found.upper
    assert 0.95 * best <= found.lower <= found.upper <= 2 * found.lower
    direction = found.witness.direction  # T v, in the inputs
    own = np.linalg.lstsq(T, direction, rcond=None)[0]
    assert np.allclose(T @ own, direction)


@pytest.mark.parametrize("input_norm", NORMS)
def test_weights_are_a_scaled_first_layer_and_box(input_norm: str) -> None:
    """The norm |v / w| is that of inputs in units of w; powers of two do not round."""
    rng = np.random.default_rng(5)
    network = smooth_network(rng, (2, 5, 1), "tanh")
    w = np.array([0.25, 4.0])
    weighted = lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2), input_norm, weights=w))
    first, *rest = network.layers
    scaled = Network([first.with_map(first.dense_weight * w, first.bias), *rest])
    same = lipyomo.solve(LipschitzProblem(scaled, Box(-1 / w, 1 / w), input_norm))
    assert weighted.status == same.status == "exact"
    assert weighted.lower == pytest.approx(same.lower, rel=2e-6)


def test_one_input_of_two_is_its_partial_derivative() -> None:
    """tanh(x_0) + 3 tanh(x_1): the second slope is 3 at the origin."""
    network = Network(
        [
            Layer(np.eye(2), np.zeros(2), curves=(Curve(activation("tanh"), [0, 1]),)),
            Layer([[1.0, 3.0]], [0.0]),
        ]
    )
    found = [
        lipyomo.solve(LipschitzProblem(network, Box(-1, 1, 2), wrt=k)).upper for k in (0, 1, [0, 1])
    ]
    assert found == pytest.approx([1.0, 3.0, 4.0], rel=1e-6)


def test_other_methods_are_sound_along_directions() -> None:
    """Every method that takes smooth units takes directions, and is on its side of the truth."""
    rng = np.random.default_rng(0)
    network = smooth_network(rng, (3, 4, 3, 1), "sigmoid")
    problem = LipschitzProblem(network, Box(-1, 1, 3), directions=rng.standard_normal((3, 2)))
    exact = lipyomo.solve(problem)
    names = [name for name, method in methods().items() if method.smooth and name != "bnb"]
    assert len(names) > 6
    for name in names:
        found = lipyomo.solve(problem, name, time_limit=0.5, attain=name == "naive")
        assert found.lower <= exact.upper * (1 + 1e-9)
        assert found.upper >= exact.lower * (1 - 1e-9)


def test_all_of_space_has_slope_ranges_along_directions() -> None:
    """The largest slope of tanh(2 x_0 + x_1) along x_1 is one, wherever that is."""
    network = Network(
        [
            Layer([[2.0, 1.0]], [0.0], curves=(Curve(activation("tanh"), [0]),)),
            Layer([[1.0]], [0.0]),
        ]
    )
    found = lipyomo.solve(LipschitzProblem(network, lipyomo.AllSpace(2), wrt=1))
    assert found.upper == pytest.approx(1.0, rel=1e-5)


def test_ascents_move_beside_inputs_that_cannot_move() -> None:
    """As far as where it has a little width."""
    network = smooth_network(np.random.default_rng(1), (3, 6, 1), "tanh")
    found = []
    for high in (0.5, 0.5 + 1e-9):
        problem = LipschitzProblem(network, Box([0, 0, 0.5], [1, 1, high]), wrt=[2])
        witness = smooth_incumbent(problem, np.random.default_rng(0))
        assert witness is not None
        found.append(witness.value)
    assert found[0] == pytest.approx(found[1], rel=1e-6)
