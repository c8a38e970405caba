"""Hostile problems by family and seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from fuzz_composed import COMPOSED
from fuzz_directions import directions_of
from fuzz_domains import domain_of, norms_of
from fuzz_extremes import EXTREMES, strange_domain, strange_norms
from fuzz_heads import HEADS
from fuzz_networks import ORDINARY
from fuzz_oracle import Oracle, PlainDomain, PlainLayer
from fuzz_thin import THIN, linear_norms
from product_extremes import EXTREME_PRODUCTS
from product_networks import PRODUCTS, small_box
from smooth_networks import ANYWHERE, CURVED, box_of, network_of
from smooth_oracle import CurvedLayer, SmoothOracle

from lipyomo import Box, Layer, LipschitzProblem, Network

NETWORKS = {**ORDINARY, **EXTREMES}
MULTIPLYING = {**PRODUCTS, **EXTREME_PRODUCTS}
"""Networks of products."""

FAMILIES = (*NETWORKS, *THIN, *COMPOSED)
"""Networks of two-slope units; those with smooth ones are `CURVED`."""

DIRECTED = tuple(f"{family}_directed" for family in NETWORKS)
"""The same networks and domains, and directions."""


@dataclass(frozen=True)
class Sample:
    """A problem, and what the oracle needs to know of it."""

    family: str
    seed: int
    problem: LipschitzProblem
    oracle: Oracle | SmoothOracle

    def __str__(self) -> str:
        return f"{self.family}/{self.seed}: {self.problem!r}"


def draw(family: str, seed: int) -> Sample:
    """The sample of a family with that seed.

    Raises
    ------
    LipyomoError
        If the package refuses the domain or the problem.
    """
    rng = np.random.default_rng([seed, *map(ord, family)])
    if family in CURVED or family in MULTIPLYING:
        return _smooth(family, seed, rng)
    if family in COMPOSED:
        return _composed(family, seed, rng)
    if family in HEADS:
        return _cancelling(family, seed, rng)
    asked: dict[str, Any] = {}
    directions = None
    directed = family in DIRECTED
    family = family.removesuffix("_directed") if directed else family
    if family in THIN:
        layers, domain, plain_domain = THIN[family](rng)
        input_norm, outputs, functionals = linear_norms(rng, len(layers[-1].bias))
    else:
        layers = NETWORKS[family](rng)
        strange = family in EXTREMES
        d, m = layers[0].weight.shape[1], layers[-1].weight.shape[0]
        # some of the extreme networks have ordinary domains or norms
        domain, plain_domain = (
            strange_domain(rng, d) if strange and rng.random() < 0.6 else domain_of(rng, d)
        )
        input_norm, outputs, functionals = (
            strange_norms(rng, m) if strange and rng.random() < 0.6 else norms_of(rng, m)
        )
    network = Network([Layer(v.weight, v.bias, v.left, v.right) for v in layers], f"{family}{seed}")
    if directed:
        asked, directions = directions_of(rng, network.input_dim)
    given: Any = {**outputs, **asked}
    problem = LipschitzProblem(network, domain, input_norm, **given)
    oracle = oracle_of(network, plain_domain, input_norm, functionals, directions)
    return Sample(f"{family}{'_directed' * directed}", seed, problem, oracle)


def _composed(family: str, seed: int, rng: np.random.Generator) -> Sample:
    """A network made of networks; the oracle has a chain of its own."""
    network, layers = COMPOSED[family](rng)
    domain, plain_domain = domain_of(rng, network.input_dim)
    input_norm, outputs, functionals = norms_of(rng, network.output_dim)
    problem = LipschitzProblem(network, domain, input_norm, **outputs)  # type: ignore[arg-type]
    return Sample(family, seed, problem, Oracle(layers, plain_domain, input_norm, functionals))


def _cancelling(family: str, seed: int, rng: np.random.Generator) -> Sample:
    """A network of any kind whose head or first layer cancels."""
    drawn = HEADS[family](rng)
    input_norm, outputs, functionals = drawn.asked
    given: dict[str, Any] = dict(outputs)
    if drawn.directions is not None:
        given["directions"] = drawn.directions
    name = f"{family}{seed}"
    oracle: Oracle | SmoothOracle
    if any(isinstance(layer, CurvedLayer) for layer in drawn.layers):
        network = network_of(drawn.layers, name)
        oracle = SmoothOracle(drawn.layers, drawn.plain_domain, input_norm, functionals)
    else:
        network = Network([Layer(v.weight, v.bias, v.left, v.right) for v in drawn.layers], name)
        oracle = oracle_of(network, drawn.plain_domain, input_norm, functionals, drawn.directions)
    problem = LipschitzProblem(network, drawn.domain, input_norm, **given)
    return Sample(family, seed, problem, oracle)


def _smooth(family: str, seed: int, rng: np.random.Generator) -> Sample:
    """A smooth or mixed network."""
    layers = {**CURVED, **MULTIPLYING}[family](rng)
    d = layers[0].weight.shape[1]
    if family in ANYWHERE:
        domain, plain_domain = domain_of(rng, d)
    else:
        low, high = small_box(rng, d) if family in MULTIPLYING else box_of(rng, d)
        domain = Box(low, high)
        plain_domain = PlainDomain(low, high, np.zeros((0, d)), np.zeros(0))
    input_norm, outputs, functionals = norms_of(rng, len(layers[-1].bias))
    network = network_of(layers, f"{family}{seed}")
    problem = LipschitzProblem(network, domain, input_norm, **outputs)  # type: ignore[arg-type]
    oracle = SmoothOracle(layers, plain_domain, input_norm, functionals)
    return Sample(family, seed, problem, oracle)


def oracle_of(
    network: Network,
    domain: PlainDomain,
    input_norm: str,
    functionals: list[np.ndarray] | None,
    directions: np.ndarray | None = None,
) -> Oracle:
    layers = [PlainLayer(v.dense_weight, v.bias, v.left, v.right) for v in network.layers]
    return Oracle(layers, domain, input_norm, functionals, directions=directions)
