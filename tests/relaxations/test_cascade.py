"""The cascade: each stage bounds the truth, none is looser than the one below, limits bind."""

from __future__ import annotations

import numpy as np
import pytest

from lipyomo.base.clock import Clock
from lipyomo.methods import methods, run_method
from lipyomo.methods.registry import finished
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import open_phases
from lipyomo.problems.domains import Box
from lipyomo.problems.norms import DUAL, InputNorm, LinearOutput, LinfOutput, vector_norm
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.presolve import presolved_sizes
from lipyomo.problems.result import Status
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.cascade import STAGES, Cascade, Stage
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.balls import DualBall, SingleFunctionals
from lipyomo.relaxations.linear.gradient import gradient_ends, tangent_ends
from lipyomo.relaxations.linear.sharpen import sharpen
from networks import DEGENERATE, domains, mixed_network, random_network
from oracle import exact_constant, regions

OWN = LinearOutput(vertices=[[1.0, 0.5], [-0.3, 1.0]])
OUTPUTS = ["linf", "l1", "l2", "cross", "cross(0)", OWN]


def cascade_of(problem: LipschitzProblem) -> Cascade:
    small = problem.reduced.problem
    return Cascade(small, preactivation_bounds(small.network, small.domain))


@pytest.mark.parametrize("norm_in", ["linf", "l1", "l2"])
@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("seed", [8, 9])
def test_every_stage_bounds_the_truth_and_none_is_looser(
    norm_in: str, out: str | LinearOutput, seed: int
) -> None:
    network = mixed_network(seed, (2, 4, 4, 2))
    problem = LipschitzProblem(network, Box(-1, 1, 2), norm_in, out)
    truth = exact_constant(problem)
    cascade = cascade_of(problem)
    before = np.inf
    for stage in STAGES:
        cascade.run((stage,))
        assert truth * (1 - 1e-12) <= cascade.value <= before
        before = cascade.value
    upper = run_method("crown", problem, Settings(attain=False)).upper
    assert truth * (1 - 1e-12) <= upper


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks(name: str) -> None:
    case = DEGENERATE[name]()
    for norm_in in ("linf", "l1", "l2"):
        problem = LipschitzProblem(case.network, case.domain, norm_in)
        small = problem.reduced.problem
        bounds = preactivation_bounds(small.network, small.domain)
        cascade = Cascade(small, bounds)
        cascade.run()
        assert cascade.value >= exact_constant(problem) * (1 - 1e-12)


@pytest.mark.parametrize("kind", list(domains(2)))
def test_domains(kind: str) -> None:
    problem = LipschitzProblem(random_network(5, (2, 4, 3, 2)), domains(2)[kind], "l2", "l2")
    assert cascade_of(problem).value == np.inf
    cascade = cascade_of(problem)
    cascade.run()
    assert cascade.value >= exact_constant(problem) * (1 - 1e-12)


@pytest.mark.parametrize("norm_in", ["linf", "l1", "l2"])
def test_norms_of_single_gradients_hold_in_every_region(norm_in: str) -> None:
    network, domain = mixed_network(22, (2, 5, 4, 3)), Box(-0.5, 0.7, 2)
    bounds = preactivation_bounds(network, domain)
    y = np.random.default_rng(0).standard_normal((4, 3))
    found = gradient_ends(network, bounds.phases, SingleFunctionals(y), norm_in)
    ball = gradient_ends(network, bounds.phases, DualBall(LinfOutput()), norm_in)
    tangents = tangent_ends(network, bounds.phases, y, norm_in)
    for pattern, _ in regions(network, domain):
        jacobian = network.jacobian(pattern)
        sizes = vector_norm(y @ jacobian, DUAL[norm_in])
        assert (sizes <= found.norm * (1 + 1e-12)).all()
        assert (np.abs(y @ jacobian) <= found.entries * (1 + 1e-12)).all()
        assert (sizes <= tangents * (1 + 1e-12)).all()
        rows = vector_norm(jacobian, DUAL[norm_in])
        assert rows.max() <= ball.norm[0] * (1 + 1e-12)


@pytest.mark.parametrize("norm_in", ["linf", "l2"])
def test_the_joint_bound_shares_the_errors_of_the_entries(norm_in: str) -> None:
    network = random_network(3, (6, 12, 12, 1))
    bounds = preactivation_bounds(network, Box(-0.3, 0.3, 6))
    found = gradient_ends(network, bounds.phases, SingleFunctionals(np.ones((1, 1))), norm_in)
    by_entry = vector_norm(found.entries, DUAL[norm_in])
    assert found.norm[0] < 0.98 * by_entry[0]


def test_cancelling_weights_do_not_push_a_bound_below_the_truth() -> None:
    # The exact gradient is 3e16 * 0.1 - 1e16 * 0.1 - 2e16 * 0.1, which is not what floats give.
    first = Layer([[0.1], [0.1], [0.1]], np.zeros(3), 0.0, 1.0)
    head = Layer([[3e16, -1e16, -2e16]], [0.0])
    problem = LipschitzProblem(Network([first, head]), Box(-1, 1, 1))
    for method in ("fastlip", "crown", "interval"):
        assert run_method(method, problem, Settings(attain=False)).upper >= 0.0
    third = Layer([[1 / 3], [1 / 3]], [1.0, 1.0], 0.0, 1.0)
    head = Layer([[1e16, -1e16 + 2.0]], [0.0])
    problem = LipschitzProblem(Network([third, head]), Box(-1, 1, 1))
    truth = 2.0 / 3.0
    for method in ("fastlip", "crown", "interval"):
        assert run_method(method, problem, Settings(attain=False)).upper >= truth * (1 - 1e-15)


def test_sparse_layers_get_the_bound_of_dense_ones() -> None:
    import scipy.sparse as sp

    dense = random_network(3, (6, 9, 7, 2))
    masked = [
        Layer(np.where(np.abs(a.weight) > 0.6, a.weight, 0.0), a.bias, a.left, a.right)
        for a in dense.layers
    ]
    sparse = [Layer(sp.csr_array(a.weight), a.bias, a.left, a.right) for a in masked]
    values = []
    for layers in (masked, sparse):
        problem = LipschitzProblem(Network(layers), Box(-1, 1, 6))
        cascade = cascade_of(problem)
        cascade.run()
        values.append(cascade.upper)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-9)


def test_a_clock_that_has_run_out_leaves_a_valid_bound() -> None:
    problem = LipschitzProblem(random_network(4, (2, 6, 6, 3)), Box(-1, 1, 2), "linf", "l1")
    small = problem.reduced.problem
    network = small.network
    stopped = preactivation_bounds(network, small.domain, stop=lambda: True)
    full = preactivation_bounds(network, small.domain)
    assert stopped.unstable >= full.unstable
    seen: list[float] = []
    cascade = Cascade(small, stopped, clock=Clock(0.0), report=seen.append)
    cascade.run()
    truth = exact_constant(problem)
    assert truth <= cascade.value < np.inf
    assert seen == [cascade.value]


@pytest.mark.parametrize("norm_in", ["linf", "l1", "l2"])
@pytest.mark.parametrize("out", ["cross", "l1"])
def test_where_time_is_over_outputs_are_bounded_in_place_of_more_vertices(
    norm_in: InputNorm, out: str
) -> None:
    problem = LipschitzProblem(mixed_network(5, (2, 5, 4, 3)), Box(-1, 1, 2), norm_in, out)
    small = problem.reduced.problem
    bounds = preactivation_bounds(small.network, small.domain)
    clock = Clock(0.0)
    late = Cascade(small, bounds, clock=clock)
    late.run()
    assert clock.curtailed
    whole = Cascade(small, bounds)
    whole.run(("entries",))
    assert (whole.upper <= late.upper * (1 + 1e-12)).all()
    assert exact_constant(problem) <= late.value < np.inf


@pytest.mark.parametrize("method", ["crown", "sdp", "eclipse", "lipsdp", "hr1", "interval"])
def test_what_is_cut_short_says_so(method: str) -> None:
    problem = LipschitzProblem(random_network(4, (3, 9, 9, 1)), Box(-1, 1, 3))
    whole = run_method(method, problem, Settings(time_limit=1e6, attain=False))
    assert whole.status is Status.BOUNDS
    # nothing fits into what is left, which is never used up
    run = Run(problem, Settings(), method, clock=Clock(1e-12, now=lambda: 0.0))
    short = finished(methods()[method], run)
    assert short.status is Status.TIME_LIMIT
    assert whole.upper <= short.upper < np.inf


@pytest.mark.parametrize("outputs", [1, 3])
def test_stages_that_have_been_run_change_nothing(outputs: int) -> None:
    network = random_network(2, (20, 40, 40, 40, outputs))
    problem = LipschitzProblem(network, Box(-0.2, 0.2, 20), "linf", "linf")
    seen: list[float] = []
    cascade = Cascade(problem, preactivation_bounds(network, problem.domain), report=seen.append)
    cascade.run()
    upper, reports = cascade.upper.copy(), len(seen)
    cascade.run()
    assert (cascade.upper == upper).all()
    assert len(seen) == reports


@pytest.mark.parametrize("stage", ["entries", "joint"])
def test_new_worst_targets_are_treated(stage: Stage) -> None:
    network = random_network(2, (20, 40, 40, 40, 3))
    problem = LipschitzProblem(network, Box(-0.03, 0.03, 20), "linf", "linf")
    wide = preactivation_bounds(network, problem.domain, relaxation="interval")
    cascade = Cascade(problem, wide)
    cascade.run((stage,))
    worst = int(np.argmax(cascade.upper))
    cascade.tighten(np.where(np.arange(3) == worst, 1.0, np.inf))
    cascade.run((stage,))
    assert cascade.value == np.delete(cascade.upper, worst).max() < np.inf


def test_all_switches_open_is_the_whole_space() -> None:
    network = random_network(6, (3, 5, 4, 2))
    phases = open_phases(network)
    found = gradient_ends(network, phases, SingleFunctionals(np.eye(2)), "linf")
    rng = np.random.default_rng(1)
    for _ in range(50):
        pattern = tuple(rng.random(layer.units) < 0.5 for layer in network.hidden)
        sizes = np.abs(network.jacobian(pattern)).sum(axis=1)
        assert (sizes <= found.norm * (1 + 1e-12)).all()


@pytest.mark.parametrize("limit", [0.01, 0.5])
def test_branch_and_bound_never_ends_above_the_cascade(limit: float) -> None:
    problem = LipschitzProblem(random_network(2, (20, 40, 40, 40, 3)), Box(-0.2, 0.2, 20), "linf")
    small = problem.reduced.problem
    bounds = preactivation_bounds(small.network, small.domain)
    cascade = Cascade(small, bounds)
    cascade.run(("entries",) if limit < 0.1 else STAGES)
    result = run_method("bnb", problem, Settings(time_limit=limit))
    assert result.lower <= result.upper <= cascade.value
    assert all(high <= cascade.value for _, _, high in result.history[-1:])


@pytest.mark.parametrize("seed", range(3))
def test_sharpened_bounds_hold_and_are_not_looser(seed: int) -> None:
    network = mixed_network(seed, (4, 10, 10, 8, 2))
    domain = Box(-0.4, 0.3, 4)
    before = preactivation_bounds(network, domain)
    after = sharpen(network, domain, before)
    points = domain.sample(np.random.default_rng(seed), 3000)
    for z, low, high, old_low, old_high in zip(
        network.preactivations(points),
        after.lower,
        after.upper,
        before.lower,
        before.upper,
        strict=True,
    ):
        assert (z >= low - 1e-9).all()
        assert (z <= high + 1e-9).all()
        assert (low >= old_low).all()
        assert (high <= old_high).all()
    ends = [(bounds.lower, bounds.upper) for bounds in (before, after)]
    old, new = (float(np.sum(np.concatenate(high) - np.concatenate(low))) for low, high in ends)
    assert new < old


def test_networks_too_large_to_branch_are_bounded_from_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lipyomo.methods.bnb.LARGE", 1)
    problem = LipschitzProblem(random_network(4, (2, 6, 6, 3)), Box(-1, 1, 2), "linf", "linf")
    result = run_method("bnb", problem, Settings())
    truth = exact_constant(problem)
    assert 0.0 < result.lower <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-12) <= result.upper < np.inf
    assert result.nodes is None
    assert any("too large" in warning for warning in result.warnings)


def test_too_many_targets_to_branch_on_are_bounded_from_both_sides() -> None:
    network = random_network(4, (150, 3, 120))
    problem = LipschitzProblem(network, Box(-1, 1, 150), "l1", "linf")
    truth = exact_constant(problem)
    for method in ("bnb", "sdp"):
        result = run_method(method, problem, Settings(time_limit=1.0))
        assert 0.0 < result.lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-12) <= result.upper < np.inf
        assert any("too many" in warning for warning in result.warnings)


@pytest.mark.parametrize("input_norm", ["linf", "l2", "l1"])
def test_bounds_of_a_presolved_network_are_not_below_what_is_attained(
    input_norm: InputNorm,
) -> None:
    network = random_network(7, (5, 120, 100, 3))
    problem = LipschitzProblem(network, Box(-0.01, 0.01, 5), input_norm, "linf")
    phases = preactivation_bounds(network, problem.domain).phases
    assert presolved_sizes(network, 3, phases) is not None
    names = ("sdp", "eclipse", "lipsdp")
    uppers = [run_method(name, problem, Settings(attain=False)).upper for name in names]
    lower = run_method("bnb", problem, Settings(time_limit=10.0)).lower
    assert 0.0 < lower <= min(uppers)
    assert max(uppers) <= 1.5 * lower
