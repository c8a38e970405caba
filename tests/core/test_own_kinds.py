"""Domains and output norms of a user's own count as those that come with the package."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import lipyomo
from lipyomo import Box, Layer, LipschitzProblem, Network, Polytope
from lipyomo.base.arrays import BoolArray, FloatArray, Matrix
from lipyomo.networks.activations import activation
from lipyomo.networks.network import Curve
from lipyomo.problems.domains import Domain
from lipyomo.problems.domains.base import LinearRows
from lipyomo.problems.norms import LinearOutput, NormKind, OutputNorm
from lipyomo.proofs import write_proof
from lipyomo_check import check_proof
from networks import random_network

NORMAL = np.array([[1.0, 1.0, 0.0], [-1.0, 0.5, 1.0]])
RIGHT = np.array([0.5, 1.0])
WEIGHTS = np.array([2.0, 0.5])


class Slab(Domain):
    """A box between two planes."""

    def __init__(self, normal: FloatArray, right: FloatArray, box: Box) -> None:
        self._normal, self._right, self._box = normal, right, box
        self.lower, self.upper = box.lower, box.upper

    @cached_property
    def rows(self) -> LinearRows:  # type: ignore[override]
        return LinearRows(sp.csr_array(self._normal), self._right)

    def support(self, directions: Matrix) -> FloatArray:
        table = directions if isinstance(directions, np.ndarray) else directions.toarray()
        ends = np.column_stack([self.lower, self.upper])
        found = [linprog(-c, self._normal, self._right, bounds=ends) for c in table]
        return np.array([1e-9 - one.fun for one in found])

    def sample(self, rng: np.random.Generator, count: int) -> FloatArray:
        points = self._box.sample(rng, 100 * count)
        return points[(points @ self._normal.T < self._right).all(axis=1)][:count]

    def restrict(self, keep: BoolArray) -> Slab:
        right = self._right - self._normal[:, ~keep] @ self.lower[~keep]
        return Slab(self._normal[:, keep], right, self._box.restrict(keep))

    def clipped(self, lower: FloatArray, upper: FloatArray) -> Slab:
        return Slab(self._normal, self._right, self._box.clipped(lower, upper))

    def describe(self) -> str:
        return f"slab in R^{self.dimension}"


class WeightedLargest(OutputNorm):
    """The largest entry, each with a weight."""

    name = "weighted"
    kind: NormKind = "linear"

    def vertices(self, m: int) -> FloatArray:
        return np.diag(WEIGHTS)


def given(network: Network) -> LipschitzProblem:
    norm = LinearOutput(vertices=np.diag(WEIGHTS))
    return LipschitzProblem(network, Polytope(NORMAL, RIGHT, -1, 1), "linf", norm)


def own(network: Network) -> LipschitzProblem:
    slab = Slab(NORMAL, RIGHT, Box(-1, 1, 3))
    return LipschitzProblem(network, slab, "linf", WeightedLargest())


@pytest.mark.parametrize("method", ["bnb", "mip", "sdp", "crown", "interval", "random_lb"])
def test_methods_take_them(method: str) -> None:
    network = random_network(3, (3, 6, 5, 2))
    ours, theirs = (lipyomo.solve(make(network), method) for make in (own, given))
    exact = lipyomo.solve(given(network))
    assert ours.lower <= exact.upper <= ours.upper * (1 + 1e-6)
    assert ours.is_exact == theirs.is_exact
    assert ours.witness is not None
    if ours.is_exact:
        assert ours.upper == pytest.approx(theirs.upper, rel=1e-6)


def test_searches_of_smooth_networks_take_them() -> None:
    rng = np.random.default_rng(0)
    bent = Curve(activation("tanh"), [0, 1, 2, 3])
    hidden = Layer(rng.normal(size=(4, 3)), rng.normal(size=4), curves=(bent,))
    network = Network([hidden, Layer(rng.normal(size=(2, 4)), np.zeros(2))])
    ours, theirs = (lipyomo.solve(make(network), gap=0.01) for make in (own, given))
    assert max(ours.lower, theirs.lower) <= min(ours.upper, theirs.upper)
    assert ours.upper <= ours.lower / (1 - 0.0101)


def test_proofs_of_them_are_checked(tmp_path: Path) -> None:
    problem, path = own(random_network(3, (3, 5, 2))), tmp_path / "a.proof"
    result = lipyomo.solve(problem)
    write_proof(path, problem, result)
    verdict = check_proof(path)
    assert verdict.upper_proved
    assert verdict.statement.lower <= result.upper
