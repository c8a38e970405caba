"""Bounds in the order that theory gives them, and cross-checks of their parts."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lipyomo import AllSpace, Box, LipschitzProblem, solve
from lipyomo.methods.lipopt import gradient_polynomial, polynomial_bound
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import open_phases
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.semidefinite.ellipsoids import closed_form
from lipyomo.relaxations.semidefinite.interior import minimise_gamma
from lipyomo.relaxations.semidefinite.quadratic import QuadraticProgram, proved_bound
from lipyomo.relaxations.semidefinite.root import RootBounds, semidefinite_targets
from lipyomo.relaxations.semidefinite.shor_model import ShorModel
from lipyomo.relaxations.semidefinite.verify import proved_shift
from networks import mixed_network, random_network

ROOM = 1 + 1e-5


def problem_of(seed: int, sizes: tuple[int, ...], norm: str = "linf") -> LipschitzProblem:
    network = random_network(seed, sizes)
    return LipschitzProblem(network, Box(-1, 1, sizes[0]), norm, functional=[1.0] * sizes[-1])


@pytest.mark.parametrize(("seed", "norm"), [(0, "linf"), (1, "l2")])
def test_semidefinite_bounds_are_nested(seed: int, norm: str) -> None:
    problem = problem_of(seed, (3, 6, 5, 2), norm)
    lower = solve(problem, "local_search").lower
    hr2, hr1 = (solve(problem, name, attain=False).upper for name in ("hr2", "hr1"))
    neuron = solve(problem, "lipsdp", options={"solver": "newton"}, attain=False).upper
    layer = solve(problem, "lipsdp", options={"form": "layer"}, attain=False).upper
    eclipse = solve(problem, "eclipse", attain=False).upper
    assert lower <= hr2 <= hr1 * ROOM
    assert hr1 <= neuron * ROOM
    assert neuron <= layer * ROOM
    assert neuron <= eclipse * ROOM


@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
@pytest.mark.parametrize("seed", range(3))
def test_linear_bounds_are_nested(seed: int, norm: str) -> None:
    problem = problem_of(seed, (3, 6, 5, 2), norm)
    interval = solve(problem, "fastlip", attain=False).upper
    linear = solve(problem, "fastlip", options={"adjoints": "linear"}, attain=False).upper
    assert solve(problem, "random_lb").lower <= linear <= interval * (1 + 1e-12)
    if norm == "linf":
        assert interval <= solve(problem, "naive", attain=False).upper


def test_local_slopes_and_more_products_help() -> None:
    problem = problem_of(4, (3, 6, 5, 2))
    for solver in ("newton", "clarabel"):
        local, everywhere = (
            solve(
                problem, "lipsdp", options={"slopes": slopes, "solver": solver}, attain=False
            ).upper
            for slopes in ("local", "global")
        )
        assert local <= everywhere * ROOM
    values = [solve(problem, "lipopt", options={"k": k}, attain=False).upper for k in (3, 4)]
    assert values[1] <= values[0] * ROOM


@pytest.mark.parametrize("norms", [("linf", "l2"), ("l2", "l2"), ("linf", "l1"), ("l2", "linf")])
def test_conic_solver_and_newton_agree(norms: tuple[str, str]) -> None:
    network = random_network(7, (4, 6, 5, 3))
    problem = LipschitzProblem(network, AllSpace(4), *norms)
    options = [{"solver": solver} for solver in ("newton", "clarabel")]
    newton, conic = (
        solve(problem, "lipsdp", options=choice, attain=False).upper for choice in options
    )
    assert newton == pytest.approx(conic, rel=1e-3)


def test_splitting_is_sound_and_not_tighter() -> None:
    network = random_network(8, (4, 5, 5, 5, 5, 2))
    problem = LipschitzProblem(network, AllSpace(4), "l2", "l2")
    whole = solve(problem, "lipsdp", options={"solver": "clarabel"}, attain=False).upper
    halves = solve(
        problem, "lipsdp", options={"split": 2, "solver": "clarabel"}, attain=False
    ).upper
    assert whole <= halves * ROOM
    assert halves <= solve(problem, "naive", attain=False).upper * ROOM


@pytest.mark.parametrize("seed", range(4))
def test_lipopt_finds_the_best_slopes_of_small_networks(seed: int) -> None:
    # with k as large as the number of variables the linear program is exact over the cube
    problem = problem_of(seed, (2, 2, 1)).reduced.problem
    bounds = preactivation_bounds(problem.network, problem.domain)
    vertex = problem.dual_vertices
    assert vertex is not None
    terms, count = gradient_polynomial(problem, bounds, vertex[0])
    best = max(
        sum(value * all(point[v] for v in key) for key, value in terms.items())
        for point in product((0, 1), repeat=count)
    )
    assert polynomial_bound(terms, count, max(count, 2), 60.0) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_shor_against_a_conic_solver(seed: int) -> None:
    cp = pytest.importorskip("cvxpy", reason="compares with CVXPY")
    network = random_network(seed, (3, 4, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 3)).reduced.problem
    bounds = preactivation_bounds(problem.network, problem.domain)
    program = ShorModel(problem, bounds, np.ones(1), cells=True).program()
    moments = cp.Variable((program.variables,) * 2, PSD=True)
    F = np.vstack([np.eye(program.variables), program.extension])
    left, right = (part.toarray() @ F for part in (program.left, program.right))
    products = cp.sum(cp.multiply(left @ moments, right), axis=1)
    equal = program.equality
    rules = [moments[0, 0] == 1, products[~equal] >= 0, products[equal] == 0]
    model = cp.Problem(cp.Maximize(cp.trace(program.objective @ moments)), rules)
    model.solve(solver="CLARABEL")
    assert minimise_gamma(program).bound == pytest.approx(model.value, rel=1e-4)


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_any_multipliers_prove_a_bound(seed: int) -> None:
    network = random_network(1, (2, 4, 1))
    problem = LipschitzProblem(network, Box(-1, 1, 2)).reduced.problem
    bounds = preactivation_bounds(problem.network, problem.domain)
    program: QuadraticProgram = ShorModel(problem, bounds, np.ones(1), cells=True).program()
    rng = np.random.default_rng(seed)
    y = rng.exponential(size=program.constraints) * rng.choice([0.1, 1.0, 10.0])
    y[program.anchors] += 100.0
    assert proved_bound(program, y) >= solve(problem, "random_lb").lower


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_definiteness_is_never_claimed_wrongly(seed: int) -> None:
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((6, 5))
    singular = factor @ factor.T
    shifted = singular - 0.1 * np.eye(6)
    assert np.linalg.eigvalsh(shifted)[0] + proved_shift(shifted, 0.0) >= 0


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_tangents_stay_in_the_ellipsoid(seed: int) -> None:
    network = mixed_network(seed % 20, (3, 6, 5, 2))
    system = UnitSystem(network, np.eye(2), AllSpace(3))
    form = system.form(np.concatenate(open_phases(network)))
    gram = closed_form(form.rows, form.objective, 3, True).gram
    rng = np.random.default_rng(seed)
    pattern = tuple(rng.random(layer.units) < 0.5 for layer in network.hidden)
    v = rng.standard_normal(3)
    out = network.jacobian(pattern) @ (v / np.linalg.norm(v))
    y = rng.standard_normal(2)
    assert (y @ out) ** 2 <= y @ gram @ y * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_closed_form_is_close_to_the_minimum_in_deep_networks_of_mixed_signs(
    seed: int,
) -> None:
    """It is as large as eigenvalues of its blocks allow; sums of rows alone are half as much again.

    With these weights the latter give 1.55 times the minimum.
    """
    rng, sizes = np.random.default_rng(seed), (4, *[40] * 4, 1)
    weights = [rng.uniform(-1.0, 1.0, (n, k)) / k**0.5 for k, n in pairwise(sizes)]
    hidden = [Layer(weight, np.zeros(len(weight)), 0.01, 1.0) for weight in weights[:-1]]
    network = Network([*hidden, Layer(weights[-1], np.zeros(1))])
    problem = LipschitzProblem(network, Box(-1.0, 1.0, 4), "l2")
    least, closed = (
        solve(problem, "lipsdp", attain=False).upper,
        solve(problem, "eclipse", attain=False).upper,
    )
    assert least is not None
    assert closed is not None
    assert least <= closed <= 1.4 * least


def deep_rotations(seed: int, depth: int, width: int) -> Network:
    """A deep chain of random rotations before ReLUs: the product of the norms is one from l2."""
    rng = np.random.default_rng(seed)
    turns = [np.linalg.qr(rng.standard_normal((width, width)))[0] for _ in range(depth)]
    return Network.from_arrays(
        [*turns, np.eye(width)[:2]], [np.zeros(width)] * depth + [np.zeros(2)]
    )


@pytest.mark.parametrize("method", ["sdp", "eclipse", "lipsdp", "crown", "interval"])
def test_no_bound_of_a_deep_chain_exceeds_the_product_of_norms(method: str) -> None:
    problem = LipschitzProblem(deep_rotations(0, 20, 16), AllSpace(16), "l2", "l2")
    naive = solve(problem, "naive", attain=False).upper
    assert naive < 1 + 1e-9
    assert solve(problem, method, time_limit=2.0, attain=False).upper <= naive * (1 + 1e-12)


def test_inputs_of_a_ball_are_rotated_into_what_the_first_layer_sees() -> None:
    network = random_network(0, (40, 6, 30, 30, 2))
    problem = LipschitzProblem(network, AllSpace(40), "l2", "l2")
    system = UnitSystem(network, np.eye(2), problem.domain)
    targets = semidefinite_targets(problem)
    root = RootBounds.of(system, targets, system.root_phases(), norm=problem.output_norm)
    assert root.bounder.kernel(root.form, 0).inputs == 6
    rotation = np.linalg.qr(network.layers[0].dense_weight.T)[0]
    first = network.layers[0]
    narrow = Network(
        [Layer(first.weight @ rotation, first.bias, 0.0, 1.0), *network.layers[1:]], "narrow"
    )
    same = solve(LipschitzProblem(narrow, AllSpace(6), "l2", "l2"), "sdp", attain=False).upper
    assert root.run().value == pytest.approx(same, rel=2e-3)
