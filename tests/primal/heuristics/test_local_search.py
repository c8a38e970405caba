"""The incumbent search attains what it says, repeats itself, and finds small optima."""

from __future__ import annotations

import pickle
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from lipyomo.base.clock import Clock
from lipyomo.primal.heuristics import local_search
from lipyomo.primal.heuristics.evaluate import (
    evaluation_work,
    jacobian_rows,
    pattern_norms,
    point_norms,
)
from lipyomo.primal.heuristics.landscape import Tried
from lipyomo.primal.heuristics.local_search import LocalSearch, search_incumbent
from lipyomo.primal.heuristics.params import Params
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.proofs import replay
from networks import DEGENERATE, domains, mixed_network, random_network
from oracle import exact_constant
from references import load_reference

NORMS = ["linf", "l1", "l2"]
OUTPUTS = ["linf", "l1", "l2", "cross", "cross(1)"]


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def search(problem: LipschitzProblem, seed: int = 0, evaluations: int | None = None) -> float:
    """Value found, after its witness was checked exactly."""
    witness = search_incumbent(problem, np.random.default_rng(seed), evaluations)
    assert witness is not None
    value = witness.value
    found = replay(problem, witness)
    assert found.holds
    assert float(found) == pytest.approx(value, rel=1e-9, abs=1e-12)
    return value


def test_more_functionals_than_outputs_take_as_many_passes_as_there_are_outputs() -> None:
    network, rng = random_network(2, (5, 7, 6, 3)), np.random.default_rng(0)
    patterns = network.pattern(rng.standard_normal((4, 5)))
    rows = rng.standard_normal((9, 3))
    alone = [jacobian_rows(network, patterns, row[None]) for row in rows]
    together = jacobian_rows(network, patterns, rows)
    np.testing.assert_allclose(together, np.concatenate(alone, axis=1), atol=1e-12)
    problem = LipschitzProblem(network, Box(-1, 1, 5), output_norm="cross")
    assert problem.dual_vertices is not None
    assert len(problem.dual_vertices) > 3
    assert evaluation_work(problem) == 4 * sum(layer.weight.size for layer in network.layers)


@pytest.mark.parametrize("name", DEGENERATE)
def test_finds_the_constant_of_degenerate_networks(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    assert search(problem, 0, 8000) == pytest.approx(exact_constant(problem), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("kind", list(domains(2)))
def test_finds_the_constant_on_every_kind_of_domain(kind: str) -> None:
    problem = LipschitzProblem(mixed_network(6, (2, 4, 3, 2)), domains(2)[kind], "linf", "l1")
    assert search(problem, 1, 12000) == pytest.approx(exact_constant(problem), rel=1e-9)


@pytest.mark.parametrize("norm_in", NORMS)
@pytest.mark.parametrize("out", OUTPUTS)
def test_norms_of_many_points_agree_with_single_ones(norm_in: str, out: str) -> None:
    network = mixed_network(2, (3, 5, 4, 3))
    problem = LipschitzProblem(network, Box(-1, 1, 3), norm_in, out)
    points = problem.domain.sample(np.random.default_rng(0), 50)
    values, patterns = point_norms(problem, points)
    true = np.array([problem.value_at(x).value for x in points])
    assert (values <= true * (1 + 1e-12)).all()
    if (norm_in, out) not in {("linf", "l2"), ("linf", "l1"), ("l2", "l1")}:
        np.testing.assert_allclose(values, true, rtol=1e-9)
    assert (values >= 0.7 * true).all()
    np.testing.assert_array_equal(values, pattern_norms(problem, patterns))


def test_equal_seeds_give_equal_witnesses() -> None:
    problem = LipschitzProblem(random_network(3, (4, 8, 8, 2)), Box(-1, 1, 4))
    one, two = (search_incumbent(problem, np.random.default_rng(5), 4000) for _ in range(2))
    assert one is not None
    assert two is not None
    np.testing.assert_array_equal(one.x, two.x)


def test_wide_inputs_gain_over_random_points() -> None:
    problem = LipschitzProblem(random_network(1, (200, 10, 10, 2)), Box(0, 0.3, 200))
    sampled = point_norms(problem, problem.domain.sample(np.random.default_rng(0), 4000))[0].max()
    assert search(problem, 0, 6000) > 1.2 * sampled


@pytest.mark.parametrize("children", [17, 22, 29])
def test_any_number_of_children_will_do_in_a_population(children: int) -> None:
    inside = domains(6)["l2 ball"]  # no polyhedron: populations only
    problem = LipschitzProblem(random_network(2, (6, 10, 10, 2)), inside)
    params = Params(children=children)
    search, rng = LocalSearch(problem, np.random.default_rng(0), params=params), rng_of(0)
    assert search.improve(search.begun, rng, 9000).best.best > search.begun.best.best


def test_a_time_limit_still_gives_a_witness() -> None:
    problem = LipschitzProblem(random_network(2, (6, 10, 10, 2)), Box(-1, 1, 6))
    witness = search_incumbent(problem, np.random.default_rng(0), clock=Clock(0.0))
    assert witness is not None
    assert witness.value > 0


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "optimum"),
    [
        ("lipmip_A_16-16-16-2_cube_s0", 24.512032958761417),
        ("lipmip_C_2-20-40-20-2_cube_s0", 8.071432233760923),
    ],
)
def test_finds_published_optima(shared: Path, name: str, optimum: float) -> None:
    known = load_reference(shared / "reference" / f"{name}.npz")
    problem = LipschitzProblem(known.network, known.box, functional=known.functional)
    for seed in range(2):
        assert search(problem, seed) == pytest.approx(optimum, rel=1e-9)


def test_a_population_begins_where_its_guide_points_to() -> None:
    network = random_network(5, (8, 12, 12, 2))
    problem = LipschitzProblem(network, Box(0, 1, 8), "linf", "cross")
    long = LocalSearch(problem, rng_of(0))
    best = long.improve(long.begun, rng_of(0), 30_000).best
    one, two = (LocalSearch(problem, rng_of(1), 8) for _ in range(2))
    hints = iter([best.points[2::-1]])
    alone = one.improve(one.begun, rng_of(1), 1).best
    guided = two.improve(two.begun, rng_of(1), 1, None, lambda: next(hints, None)).best
    assert alone.best < best.best * (1 - 1e-9)
    assert guided.best >= best.best * (1 - 1e-9)


@pytest.mark.parametrize("kind", ["box", "l2 ball"])
def test_a_state_is_a_value(kind: str) -> None:
    """Going on twice from one state finds the same, and the state stays as it was."""
    problem = LipschitzProblem(random_network(1, (5, 12, 12, 2)), domains(5)[kind])
    search = LocalSearch(problem, rng_of(0))
    middle = search.improve(search.begun, rng_of(1), 4000)
    before = middle.best.best, len(middle.tried), middle.turn
    one, two = (search.improve(middle, rng_of(2), 4000) for _ in range(2))
    assert (middle.best.best, len(middle.tried), middle.turn) == before
    np.testing.assert_array_equal(one.best.points, two.best.points)
    assert one.best.best >= middle.best.best >= search.begun.best.best
    again = search.improve(pickle.loads(pickle.dumps(middle)), rng_of(2), 4000)
    np.testing.assert_array_equal(one.best.points, again.best.points)


def test_only_what_was_given_counts_as_tried() -> None:
    patterns = [np.array([[True, False], [False, False], [True, False], [True, True]])]
    tried, order = Tried(), np.array([3, 0, 2, 1])
    assert list(islice(tried.first(patterns, order), 2)) == [3, 0]
    assert len(tried) == 2
    assert list(tried.copy().first(patterns, order)) == [1]
    assert list(tried.first(patterns, order)) == [1]


def test_where_time_is_over_one_point_is_looked_at() -> None:
    problem = LipschitzProblem(random_network(2, (5, 7, 6, 3)), Box(-1, 1, 5))
    witness = local_search.quick_incumbent(problem, 0, Clock(0.0))
    assert witness is not None
    found = replay(problem, witness)
    assert found.holds
    np.testing.assert_allclose(witness.x, 0.0, atol=1e-6)


def test_points_of_large_networks_are_evaluated_as_long_as_there_is_time() -> None:
    problem = LipschitzProblem(random_network(2, (5, 7, 6, 3)), Box(-1, 1, 5))
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) >= 4

    params = Params(poll_work=3.5 * evaluation_work(problem), children=64)  # three points a look
    search = LocalSearch(problem, rng_of(0), 64, Clock(should_stop=stop), params)
    assert 0 < len(search.begun.best.points) <= 12
