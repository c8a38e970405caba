"""Small networks for tests: random ones, and degenerate ones on which tools go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, RIGHT, Phases
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope, ball


@dataclass(frozen=True)
class Case:
    """A network on a domain, with its constant from linf to linf where it is known by hand."""

    network: Network
    domain: Domain
    constant: float | None = None


def random_network(
    seed: int, sizes: tuple[int, ...], slope: float = 0.0, bias: float = 0.5
) -> Network:
    """A Gaussian network with widths `sizes` (inputs first, outputs last)."""
    rng = np.random.default_rng(seed)
    weights = [rng.standard_normal((n, k)) * np.sqrt(2.0 / k) for k, n in pairwise(sizes)]
    biases = [bias * rng.standard_normal(n) for n in sizes[1:]]
    return Network.from_arrays(weights, biases, slope, f"random{sizes}")


def mixed_network(seed: int, sizes: tuple[int, ...]) -> Network:
    """Like `random_network`, with ReLU, LeakyReLU, absolute-value, identity and concave units."""
    rng = np.random.default_rng(seed)
    plain = random_network(seed, sizes)
    kinds = np.array([[0.0, 1.0], [0.1, 1.0], [-1.0, 1.0], [1.0, 1.0], [1.0, 0.0], [0.5, -0.25]])
    layers = []
    for layer in plain.hidden:
        slopes = kinds[rng.integers(0, len(kinds), layer.units)]
        layers.append(Layer(layer.weight, layer.bias, slopes[:, 0], slopes[:, 1]))
    return Network([*layers, plain.head], f"mixed{sizes}")


def integer_network(seed: int, sizes: tuple[int, ...]) -> Network:
    """Weights in {-2, ..., 2} and biases mostly zero: parallel, duplicate and cancelling kinks."""
    rng = np.random.default_rng(seed)
    weights = [rng.integers(-2, 3, (n, k)).astype(float) for k, n in pairwise(sizes)]
    biases = [rng.integers(-1, 2, n) * rng.integers(0, 2, n).astype(float) for n in sizes[1:]]
    return Network.from_arrays(weights, biases, name=f"integer{sizes}")


def relu(weights: list[list[list[float]]], biases: list[list[float]]) -> Network:
    """A ReLU network from nested lists."""
    return Network.from_arrays(weights, biases)


def _trap_scalar() -> Case:
    # 2 (relu(x + 10) - 10) - relu(x) + relu(-x) = x: closed patterns at 0 say 2.
    network = relu([[[1.0], [1.0], [-1.0]], [[2.0, -1.0, 1.0]]], [[10.0, 0.0, 0.0], [-20.0]])
    return Case(network, Box(-1, 1, 1), 1.0)


def _trap_relu() -> Case:
    # 2 relu(x) - 2 relu(-x) - relu(x) + relu(-x) = x: closed patterns at 0 say 4.
    weights = [[[1.0], [-1.0], [1.0], [-1.0]], [[2.0, -2.0, -1.0, 1.0]]]
    return Case(relu(weights, [[0.0] * 4, [0.0]]), Box(-1, 1, 1), 1.0)


def _zero_biases() -> Case:
    return Case(random_network(3, (2, 4, 3, 2), bias=0.0), Box(-1, 1, 2))


def _dead_units() -> Case:
    # The second layer's first unit sees only dead units and a negative bias; the next one a zero.
    weights = [
        [[1.0, 1.0], [-1.0, 0.5], [1.0, -1.0]],
        [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 1.0]],
        [[3.0, 5.0, 1.0]],
    ]
    network = relu(weights, [[-9.0, 0.1, 0.0], [-1.0, 0.0, -0.2], [0.0]])
    return Case(network, Box(-1, 1, 2))


def _duplicate_units() -> Case:
    # Two equal units cancel in the next layer, whose kink then depends on nothing.
    weights = [
        [[1.0, -0.5], [1.0, -0.5], [0.3, 1.0]],
        [[1.0, -1.0, 0.0], [1.0, 1.0, -1.0]],
        [[7.0, 1.0]],
    ]
    return Case(relu(weights, [[0.1, 0.1, 0.0], [0.0, 0.0], [0.0]]), Box(-1, 1, 2))


def _boundary_touch() -> Case:
    # The unit relu(-x) is on only for x < 0, outside the domain, and touches it at 0.
    return Case(relu([[[1.0], [-1.0]], [[1.0, 5.0]]], [[0.0, 0.0], [0.0]]), Box(0, 1, 1), 1.0)


def _frozen_input() -> Case:
    network = relu([[[1.0, 100.0], [2.0, -100.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    return Case(network, Box([-1.0, 0.01], [1.0, 0.01]), 3.0)


def _no_hidden_layer() -> Case:
    return Case(relu([[[1.0, -2.0], [0.5, 0.25]]], [[1.0, 2.0]]), Box(0, 1, 2), 3.0)


def _single_unit() -> Case:
    return Case(relu([[[2.0, -3.0]], [[1.5]]], [[0.5], [0.0]]), Box(-1, 1, 2), 7.5)


def _absolute_value() -> Case:
    layers = [Layer([[1.0, 1.0], [1.0, -1.0]], [0.0, 0.0], -1.0, 1.0), Layer([[1.0, -1.0]], [0.0])]
    return Case(Network(layers), Box(-1, 1, 2), 2.0)


def _leaky() -> Case:
    return Case(random_network(5, (2, 4, 4, 2), slope=0.1), Box(-1, 1, 2))


def _mixed() -> Case:
    return Case(mixed_network(1, (2, 5, 4, 2)), Box(-1, 1, 2))


def _affine_middle() -> Case:
    plain = random_network(8, (2, 4, 3, 1))
    middle = Layer(
        np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, -1]]), np.ones(4)
    )
    return Case(Network([plain.layers[0], middle, *plain.layers[1:]]), Box(-1, 1, 2))


def _constant() -> Case:
    return Case(relu([[[1.0], [1.0]], [[1.0, 1.0]]], [[-5.0, -6.0], [1.0]]), Box(-1, 1, 1), 0.0)


def _integers() -> Case:
    return Case(integer_network(2, (2, 5, 4, 2)), Box(-1, 1, 2))


DEGENERATE: dict[str, Callable[[], Case]] = {
    "trap_scalar": _trap_scalar,
    "trap_relu": _trap_relu,
    "zero_biases": _zero_biases,
    "dead_units": _dead_units,
    "duplicate_units": _duplicate_units,
    "boundary_touch": _boundary_touch,
    "frozen_input": _frozen_input,
    "no_hidden_layer": _no_hidden_layer,
    "single_unit": _single_unit,
    "absolute_value": _absolute_value,
    "leaky": _leaky,
    "mixed": _mixed,
    "affine_middle": _affine_middle,
    "constant": _constant,
    "integers": _integers,
}
"""Degenerate cases by name."""


@cache
def domains(d: int) -> dict[str, Domain]:
    """One domain of each kind in R^d, all around the origin; made once, as they are values."""
    simplex = Polytope(np.vstack([np.ones((1, d)), -np.eye(d)]), np.append(1.0, np.full(d, 0.5)))
    return {
        "box": Box(-1, 1, d),
        "offset box": Box(np.linspace(-0.3, 0.2, d), np.linspace(0.4, 1.1, d)),
        "l1 ball": ball(np.full(d, 0.1), 0.7, "l1"),
        "l2 ball": ball(np.full(d, 0.1), 0.7, "l2"),
        "clipped l2 ball": ball(np.full(d, 0.1), 0.7, "l2", (0.0, 1.0)),
        "polytope": simplex,
        "all space": AllSpace(d),
    }


@st.composite
def small_networks(draw: st.DrawFn, max_units: int = 8, inputs: int = 3) -> Network:
    """Networks of up to `max_units` units: random, with mixed units, or with small integers."""
    d = draw(st.integers(1, inputs))
    m = draw(st.integers(1, 3))
    first = draw(st.integers(1, max(1, max_units - 1)))
    second = draw(st.integers(0, max_units - first))
    sizes = (d, first, second, m) if second else (d, first, m)
    make = draw(st.sampled_from([random_network, mixed_network, integer_network]))
    return make(draw(st.integers(0, 2**16)), sizes)


@st.composite
def boxes(draw: st.DrawFn, d: int) -> Box:
    """Boxes with positive widths on a coarse grid."""
    lower = draw(st.lists(st.integers(-4, 4), min_size=d, max_size=d))
    width = draw(st.lists(st.integers(1, 6), min_size=d, max_size=d))
    low: FloatArray = np.array(lower, dtype=np.float64) / 4.0
    return Box(low, low + np.array(width, dtype=np.float64) / 4.0)


def from_pattern(network: Network, pattern: Pattern) -> Phases:
    """The phases of a full pattern."""
    return tuple(
        np.where(layer.kinked & ~on, np.int8(LEFT), np.int8(RIGHT)).astype(np.int8)
        for layer, on in zip(network.hidden, pattern, strict=True)
    )


def to_pattern(phases: Phases) -> Pattern:
    """The pattern of phases without unstable units."""
    return tuple(np.asarray(layer == RIGHT) for layer in phases)
