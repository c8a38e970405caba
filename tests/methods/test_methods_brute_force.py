"""Random small networks with ties, dead units and parallel kinks against brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo.analyses.api import solve
from lipyomo.base.errors import DomainError, MethodError
from lipyomo.methods import methods
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import AllSpace, Box, Domain, Polytope, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result, Status
from oracle import exact_constant, matrix_norm

NETWORKS = 20


def random_network(rng: np.random.Generator, d: int) -> Network:
    sizes = [d, *rng.integers(1, 5, int(rng.integers(0, 3))).tolist(), int(rng.integers(1, 4))]
    layers = []
    for position, (inputs, units) in enumerate(pairwise(sizes)):
        weight = rng.integers(-2, 3, (units, inputs)).astype(float)
        bias = rng.integers(-1, 2, units) * float(rng.integers(0, 2))
        if units > 1 and rng.random() < 0.4:
            factor = float(rng.choice([1.0, -1.0, 2.0]))
            weight[1], bias[1] = factor * weight[0], factor * bias[0]
        if position == len(sizes) - 2:
            layers.append(Layer(weight, bias))
            continue
        left = rng.choice([0.0, 0.0, 0.25, -1.0, 1.0], units)
        layers.append(Layer(weight, bias, left, np.ones(units)))
    return Network(layers)


def random_domain(rng: np.random.Generator, d: int) -> Domain:
    kind = int(rng.integers(0, 6))
    center = rng.integers(-1, 2, d).astype(float)
    if kind == 0:
        return AllSpace(d)
    if kind == 1:
        return ball(center, 1.0, str(rng.choice(["l1", "l2"])))
    if kind == 2:
        return ball(np.zeros(d), 1.5, "l2", (np.full(d, -1.0), np.full(d, 0.5)))
    if kind == 3:
        A = rng.integers(-2, 3, (3, d)).astype(float)
        try:
            return Polytope(A, rng.integers(0, 3, 3), -2.0, 2.0)
        except DomainError:
            return Box(-1, 1, d)
    low = center - 1.0
    width = rng.integers(0, 3, d).astype(float)
    return Box(low, low + np.where(width.any(), width, 1.0))


def check_witness(problem: LipschitzProblem, result: Result) -> None:
    """The witness attains the lower end, by plain numpy and the oracle's norms."""
    if result.witness is None:
        assert result.lower == 0.0
        return
    x, moving = result.witness.x, ~problem.domain.frozen
    assert problem.domain.contains(x)
    assert ((x > problem.domain.lower) & (x < problem.domain.upper))[moving].all()
    h, jacobian = x, np.eye(x.size)
    for layer in problem.network.hidden:
        z = layer.dense_weight @ h + layer.bias
        slope = np.where(z > 0, layer.right, layer.left)
        jacobian, h = slope[:, None] * (layer.dense_weight @ jacobian), slope * z
    jacobian = (problem.network.head.dense_weight @ jacobian)[:, moving]
    value = matrix_norm(jacobian, problem.norm, problem.output_norm)
    assert result.lower == pytest.approx(value, rel=1e-9, abs=1e-15)


def test_random_networks() -> None:
    rng = np.random.default_rng(20)
    table = methods()
    names = [name for name in table if name not in ("bnb", "mip", "clever", "seqlip")]
    for number in range(NETWORKS):
        d = int(rng.integers(1, 4))
        network, domain = random_network(rng, d), random_domain(rng, d)
        norms = (
            str(rng.choice(["linf", "l1", "l2"])),
            str(rng.choice(["linf", "l1", "l2", "cross"])),
        )
        problem = LipschitzProblem(network, domain, *norms)
        truth = exact_constant(problem)
        room = 1e-9 * max(truth, 1e-9)
        for name in ["bnb", "mip", str(rng.choice(names))]:
            if table[name].refusal(problem) or (name != "bnb" and not domain.is_polyhedral):
                continue
            try:
                result = solve(problem, name, time_limit=10.0)
            except MethodError:  # estimators may refuse by name what they see only at work
                assert name not in ("bnb", "mip")
                continue
            where = (number, name, problem)
            if table[name].guarantee is not Guarantee.HEURISTIC:
                assert result.lower <= truth + room, where
                assert result.upper >= truth - room, where
                check_witness(problem, result)
            if name in ("bnb", "mip"):
                assert result.status is Status.EXACT, where
