"""Points of many regions at once: found where a region has interior, and really inside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.networks.network import Network
from lipyomo.primal.heuristics.local_search import LocalSearch
from lipyomo.primal.heuristics.params import Params
from lipyomo.primal.heuristics.walks import deep_points, solves_regions_of
from lipyomo.primal.regions.margin import interior_point
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope
from lipyomo.problems.problem import LipschitzProblem
from networks import domains, integer_network, mixed_network, random_network

SHAPE = (3, 3, 3, 2)

DOMAINS: dict[str, Domain] = {
    "cube": Box(0, 1, 3),
    "small, far away": Box(np.array([40.0, -3.0, 0.0]), np.array([40.001, -2.999, 0.001])),
    "sides of all lengths": Box(np.array([-1e3, -1.0, -1e-3]), np.array([1e3, 1.0, 1e-3])),
    "a simplex": Polytope(np.vstack([np.ones(3), -np.eye(3)]), np.array([1.0, 0.2, 0.2, 0.2])),
    "one side open": Box(np.zeros(3), np.array([1.0, 1.0, np.inf])),
    "all of space": AllSpace(3),
}


def all_patterns(network: Network) -> list[BoolArray]:
    units = [layer.units for layer in network.hidden]
    every = np.array(list(product((False, True), repeat=sum(units))))
    return list(np.split(every, np.cumsum(units)[:-1], axis=1))


def agree(network: Network, pattern: Sequence[BoolArray], x: FloatArray) -> bool:
    """Whether `x` has the pattern, but for units without a kink."""
    return all(
        ((on == at) | ~layer.kinked).all()
        for layer, on, at in zip(network.hidden, pattern, network.pattern(x), strict=True)
    )


@pytest.mark.parametrize("name", list(DOMAINS))
@pytest.mark.parametrize("seed", range(3))
def test_all_regions_with_interior_are_found_and_no_others(name: str, seed: int) -> None:
    domain = DOMAINS[name]
    network = (random_network, mixed_network, integer_network)[seed](seed, SHAPE)
    patterns = all_patterns(network)
    near = np.repeat(domain.center[None, :], len(patterns[0]), axis=0)
    points, found = deep_points(network, domain, patterns, near, Params(far=1e4))
    for k in np.flatnonzero(found):
        assert domain.margin(points[k]) > 0
        assert agree(network, [on[k] for on in patterns], points[k])
    width = domain.upper - domain.lower
    clear = 1e-5 * float(np.where(np.isfinite(width), width, 1.0).min())
    for k in np.flatnonzero(~found):
        pattern = tuple(on[k] for on in patterns)
        deepest = interior_point(network, domain, pattern)
        assert deepest.margin <= clear or not agree(network, pattern, deepest.x)


@pytest.mark.parametrize("nearest", [64, 4])
@pytest.mark.parametrize("sides", ["a box", "a polytope"])
def test_regions_of_many_inputs(sides: str, nearest: int) -> None:
    """With more inputs than rows, and where the nearest rows are looked at first."""
    network = random_network(3, (30, 5, 3, 2))
    domain: Domain = Box(-0.1, 0.3, 30)
    if sides == "a polytope":
        domain = Polytope(np.vstack([np.ones(30), -np.eye(30)]), np.append(1.0, np.full(30, 0.1)))
    patterns = all_patterns(network)
    near = np.repeat(domain.center[None, :], len(patterns[0]), axis=0)
    points, found = deep_points(network, domain, patterns, near, Params(nearest=nearest))
    exist = [interior_point(network, domain, p).margin > 1e-6 for p in zip(*patterns, strict=True)]
    for k in np.flatnonzero(found):
        assert domain.margin(points[k]) > 0
        assert agree(network, [on[k] for on in patterns], points[k])
    assert found[exist].all()
    assert not found[~np.array(exist)].any()


def test_curved_domains_and_frozen_inputs_are_left_to_others() -> None:
    for kind, domain in domains(2).items():
        curved = domain.ball is not None
        assert solves_regions_of(domain) == (not curved and not domain.frozen.any()), kind
    assert not solves_regions_of(Box(np.zeros(2), np.array([0.0, 1.0])))


@pytest.mark.parametrize(("inputs", "radius"), [(6, 1.0), (60, 0.1)])
def test_a_search_in_small_pieces_goes_on_where_it_stopped(inputs: int, radius: float) -> None:
    problem = LipschitzProblem(random_network(4, (inputs, 12, 12, 2)), Box(0, radius, inputs))
    rng = np.random.default_rng(0)
    search = LocalSearch(problem, rng)
    whole = search.improve(search.begun, rng, 30_000).best
    rng = np.random.default_rng(0)
    search = LocalSearch(problem, rng)
    pieces = search.begun
    for _ in range(50):
        pieces = search.improve(pieces, rng, 600)
    assert pieces.best.best >= 0.995 * whole.best
