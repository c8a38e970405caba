"""Directions, by every method that knows them, against all regions of small networks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo import Box, LipschitzProblem, Network
from lipyomo.base.arrays import dense
from lipyomo.methods import methods
from lipyomo.problems.result import Guarantee
from networks import mixed_network, random_network
from oracle import matrix_norm, regions

INPUTS, OUTPUTS = ("linf", "l1", "l2"), ("linf", "l1", "l2", "cross")
QUICK: dict[str, dict[str, object]] = {
    "clever": {"batches": 5, "batch_size": 50},
    "local_search": {"evaluations": 500},
    "random_lb": {"samples": 50},
}


def truth_of(problem: LipschitzProblem) -> float:
    """The largest norm of ``J T`` over all regions."""
    assert problem.directions is not None
    T = dense(problem.directions)
    found = regions(problem.network, problem.domain)
    norms = problem.norm, problem.output_norm
    return max(matrix_norm(problem.network.jacobian(on) @ T, *norms) for on, _ in found)


def asked(rng: np.random.Generator, d: int) -> dict[str, Any]:
    """Some directions: a selection, weights, or a matrix with dependent columns."""
    kind = int(rng.integers(4))
    if kind == 0:
        return {"wrt": int(rng.integers(d))}
    if kind == 1:
        return {"weights": rng.uniform(0.1, 3.0, d)}
    T = rng.integers(-2, 3, (d, int(rng.integers(1, 5)))).astype(float)
    T[0, 0] = 1.0
    return {"directions": T if kind == 2 else T @ rng.standard_normal((T.shape[1], 3))}


@pytest.mark.parametrize("norm_out", OUTPUTS)
@pytest.mark.parametrize("norm_in", INPUTS)
def test_every_method_keeps_its_promise(norm_in: str, norm_out: str) -> None:
    rng = np.random.default_rng(len(norm_in) + 7 * len(norm_out) + ord(norm_out[-1]))
    seed = (INPUTS.index(norm_in) + OUTPUTS.index(norm_out)) % 2  # each norm meets both networks
    layers = (3, 3, 2, 2) if seed else (2, 4, 2)
    network = mixed_network(seed, layers) if seed else random_network(seed, layers)
    d, problem = layers[0], None
    while problem is None or problem.directions is None:
        problem = LipschitzProblem(network, Box(-1, 1, d), norm_in, norm_out, **asked(rng, d))
    truth = truth_of(problem)
    for name, method in methods().items():
        if method.refusal(problem) is None:
            found = lipyomo.solve(
                problem,
                name,
                time_limit=20,
                options=QUICK.get(name, {}),
                attain=name == "naive",  # one function finds the others' lower ends, too
            )
            assert found.lower <= truth * (1 + 1e-9), (name, problem)
            assert found.upper >= truth * (1 - 1e-9), (name, problem)
            if method.guarantee is Guarantee.EXACT:
                assert found.is_exact, (name, problem)


@pytest.mark.parametrize("encoding", ["adjoint", "tangent"])
def test_both_encodings_know_directions(encoding: str) -> None:
    T = np.array([[0.1, -2.0], [0.7, 1.0], [0.0, 3.0]])
    problem = LipschitzProblem(mixed_network(3, (3, 4, 3, 2)), Box(-1, 1, 3), directions=T)
    found = lipyomo.solve(problem, "mip", formulation=encoding, time_limit=60)
    assert found.is_exact
    assert found.lower == pytest.approx(truth_of(problem), rel=1e-6)


@pytest.mark.parametrize("norm_in", INPUTS)
def test_weights_are_units_of_the_inputs(norm_in: str) -> None:
    rng = np.random.default_rng(ord(norm_in[-1]))
    for seed in range(2):
        network, weights = random_network(seed, (3, 5, 4, 1)), rng.uniform(0.1, 5.0, 3)
        first, *rest = network.layers
        scaled = Network([first.with_map(first.dense_weight * weights, first.bias), *rest])
        one = LipschitzProblem(network, Box(-1, 1, 3), norm_in, weights=weights)
        other = LipschitzProblem(scaled, Box(-1 / weights, 1 / weights), norm_in)
        found = lipyomo.solve(one).lower
        assert found == pytest.approx(lipyomo.solve(other).lower, rel=1e-9)


def test_rounding_of_directions_is_allowed_for_or_kept_out() -> None:
    plain = LipschitzProblem(random_network(1, (2, 6, 1)), Box(-1, 1, 2), weights=[0.3, 0.7])
    assert 0.0 < plain.rounding < 1e-9 * lipyomo.solve(plain).lower
    assert len(plain.reduced.problem.network.hidden) == 1
    # 1e17 (x + y) - 1e17 (x + y) + x, along (0.1, 0.3)
    rows = [[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]
    network = Network.from_arrays([rows, [[1e17, -1e17, 1.0]]], [[9.0, 9.5, 9.0], [0.0]])
    exact = LipschitzProblem(network, Box(-1, 1, 2), directions=[0.1, 0.3])
    assert exact.rounding == 0.0
    found = lipyomo.solve(exact)
    assert found.is_exact
    assert found.lower == pytest.approx(0.1, rel=1e-9)


def test_a_checkpoint_knows_its_directions(tmp_path: Path) -> None:
    network, box = random_network(5, (4, 12, 12, 1)), Box(-1, 1, 4)
    one, other = (LipschitzProblem(network, box, wrt=k) for k in (0, 1))
    file = tmp_path / "state"
    lipyomo.solve(one, "bnb", checkpoint=file, gap=0.5)
    with pytest.raises(lipyomo.LipyomoError, match="directions"):
        lipyomo.solve(other, "bnb", checkpoint=file, resume=True)
