"""Bounds layer by layer: they hold for the exact weights, and are those of one matrix."""

from __future__ import annotations

import time
from itertools import pairwise, product
from typing import Literal

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from lipyomo import AllSpace, Box, LipschitzProblem, Network, Result, Settings, solve
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.methods.registry import finished, get_method
from lipyomo.networks.layer import Layer
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, open_phases
from lipyomo.problems.affine.signal import unit_maps_of
from lipyomo.problems.reductions.presolve import presolve
from lipyomo.problems.run import Run
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.linear.layers import with_slopes
from lipyomo.relaxations.semidefinite import chain_descent
from lipyomo.relaxations.semidefinite.chain import Chain
from lipyomo.relaxations.semidefinite.chain_descent import ChainDescent
from lipyomo.relaxations.semidefinite.chain_proof import Layered, proved_chain_bound
from lipyomo.relaxations.semidefinite.chain_root import (
    ChainBounds,
    chain_bounds,
    exact_tangents,
)
from lipyomo.relaxations.semidefinite.chain_starts import start
from lipyomo.relaxations.semidefinite.root import RootBounds, semidefinite_targets
from networks import mixed_network, random_network

Norm = Literal["l2", "linf"]
SIZES = [(3, 5, 4, 4, 2), (6, 3, 4, 2), (2, 4, 4, 4, 4, 3)]


def solved(problem: LipschitzProblem, name: str, seconds: float) -> Result:
    """What a method says after seconds of the processor, however busy the machine is."""
    method, settings = get_method(name), Settings(time_limit=seconds, workers=1)
    clock = Clock(seconds, now=time.process_time)
    return finished(method, Run(problem, settings, name, method.guarantee, clock))


def layered_of(network: Network, phases: Phases, norm: Norm) -> Layered:
    """A network under phases, with the Euclidean ball of its outputs."""
    head = network.head.dense_weight
    unit_maps = unit_maps_of(network.hidden, phases, network.input_dim)
    return Layered(network.hidden, unit_maps, head, np.zeros(head.shape), norm == "l2")


def chain_of(layered: Layered) -> Chain:
    return Chain.of(layered.layers, layered.unit_maps, layered.head, layered.euclidean)


def some_decided(network: Network, seed: int) -> Phases:
    """A third of the units with a kink decided at random; each layer keeps an open one."""
    rng = np.random.default_rng(seed)
    found = []
    for phases in open_phases(network):
        at = rng.random(phases.size) < 1 / 3
        sides = np.where(rng.random(phases.size) < 0.5, LEFT, RIGHT)
        found.append(np.where(at & (phases == OPEN), sides, phases).astype(np.int8))
    return tuple(found)


def exact_matrix(values: FloatArray) -> fmpq_mat:
    return fmpq_mat([[rational(v) for v in row] for row in values.tolist()])


def diagonal(values: list[fmpq]) -> fmpq_mat:
    n = len(values)
    return fmpq_mat([[values[i] if i == j else fmpq(0) for j in range(n)] for i in range(n)])


def rational(value: float) -> fmpq:
    return fmpq(*float(value).as_integer_ratio())


def is_definite(matrix: fmpq_mat) -> bool:
    """By the signs of the leading minors."""
    rows = matrix.tolist()
    minors = (fmpq_mat([row[:k] for row in rows[:k]]).det() for k in range(1, len(rows) + 1))
    return all(minor > 0 for minor in minors)


def exact_riccati(network: Network, phases: Phases, lam: FloatArray) -> fmpq_mat | None:
    """P_0 in rational numbers; None where a Q is not positive definite."""
    head = exact_matrix(network.head.dense_weight)
    inner, stop = head.transpose() * head * fmpq(1, 4), len(lam)
    for layer, phase in zip(network.hidden[::-1], phases[::-1], strict=True):
        weight = exact_matrix(layer.dense_weight)
        units = np.flatnonzero(phase == OPEN).tolist()
        slopes = np.where(phase == RIGHT, layer.right, layer.left)
        passed = diagonal([rational(v) for v in slopes]) * weight
        weights = [rational(v) for v in lam[stop - len(units) : stop]]
        stop -= len(units)
        found = passed.transpose() * inner * passed
        if units:
            change = [rational(layer.right[k]) - rational(layer.left[k]) for k in units]
            rows = passed.ncols()
            columns = [
                [change[j] if units[j] == i else fmpq(0) for j in range(len(units))]
                for i in range(layer.units)
            ]
            spread = fmpq_mat(columns)
            own = fmpq_mat([[weight[k, j] for j in range(rows)] for k in units])
            quadratic = diagonal(weights) - spread.transpose() * inner * spread
            if not is_definite(quadratic):
                return None
            mixed = diagonal(weights) * own * fmpq(1, 2) + spread.transpose() * inner * passed
            found += mixed.transpose() * quadratic.inv() * mixed
        inner = found
    return inner


def check_exactly(
    network: Network, phases: Phases, norm: Norm, lam: FloatArray, shape: FloatArray | None
) -> float:
    """A proved bound, and the check that it is one of these multipliers' in rational numbers."""
    bound = proved_chain_bound(layered_of(network, phases, norm), lam, shape)
    inner = exact_riccati(network, phases, lam)
    if inner is None:
        assert bound == np.inf
        return bound
    if bound < np.inf:
        square = rational(bound) * rational(bound) / 4
        d = network.input_dim
        if shape is None:
            assert is_definite(diagonal([square] * d) - inner)
        else:
            # D is in proportion to numbers next to those of the shape
            total = sum((rational(v) for v in shape), fmpq(0))
            zeta = [square * rational(v) / total * fmpq(10**12 + 1, 10**12) for v in shape]
            assert is_definite(diagonal(zeta) - inner)
    return bound


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_proved_bounds_hold_in_rational_arithmetic(
    seed: int, sizes: tuple[int, ...], norm: Norm
) -> None:
    network = (random_network if seed % 2 else mixed_network)(seed, sizes)
    phases = some_decided(network, seed) if seed >= 2 else open_phases(network)
    chain = chain_of(layered_of(network, phases, norm))
    point = start(chain)
    assert point is not None
    rng = np.random.default_rng(seed)
    descent = ChainDescent.begun(chain).lowered()
    assert descent.best is not None
    for lam in (point.lam, descent.best.lam, point.lam * rng.uniform(0.1, 3.0, point.lam.size)):
        at = chain.at(
            lam,
            None,
            np.ones(chain.inputs) if norm == "l2" else descent.best.zeta / descent.best.zeta.sum(),
        )
        shape = None if norm == "l2" else descent.best.zeta
        bound = check_exactly(network, phases, norm, lam, shape)
        if at is not None:
            assert at.value * (1 - 1e-9) <= bound <= at.value * (1 + 1e-5)


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("decided", [0, 1, 2])
def test_layers_without_open_units_are_passed_exactly(decided: int, norm: Norm) -> None:
    network = mixed_network(6, (3, 5, 4, 4, 2))
    phases = tuple(
        np.full(phase.size, RIGHT, dtype=np.int8) if i == decided else phase
        for i, phase in enumerate(open_phases(network))
    )
    chain = chain_of(layered_of(network, phases, norm))
    best = ChainDescent.begun(chain).lowered().best
    assert best is not None
    bound = check_exactly(network, phases, norm, best.lam, best.shape(chain))
    assert best.value * (1 - 1e-9) <= bound <= best.value * (1 + 1e-5)


@pytest.mark.parametrize("scale", [1e-39, 1e-12, 3e7])
def test_proved_bounds_hold_for_rows_of_all_sizes(scale: float) -> None:
    network = random_network(3, (3, 5, 4, 2))
    first, second, head = network.layers
    rows = first.dense_weight.copy()
    rows[1] *= scale
    columns = second.dense_weight.copy()
    columns[:, 1] /= scale if scale > 1e-20 else 1.0
    other = Network(
        [Layer(rows, first.bias, 0.0, 1.0), Layer(columns, second.bias, 0.0, 1.0), head]
    )
    point = start(chain_of(layered_of(other, open_phases(other), "l2")))
    assert point is not None
    bound = check_exactly(other, open_phases(other), "l2", point.lam, None)
    assert bound <= point.value * (1 + 1e-5)


def test_multipliers_that_are_none_prove_nothing() -> None:
    network = random_network(0, (3, 5, 4, 2))
    layered = layered_of(network, open_phases(network), "l2")
    point = start(chain_of(layered))
    assert point is not None
    for lam in (0.0 * point.lam, -point.lam, 1e-6 * point.lam, point.lam[:-1], point.lam * np.nan):
        assert proved_chain_bound(layered, lam, None) == np.inf


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_no_jacobian_exceeds_the_bound(seed: int, sizes: tuple[int, ...], norm: Norm) -> None:
    """Of all phases of a small network: each is that of some network with other biases."""
    network = mixed_network(seed + 10, sizes)
    layered = layered_of(network, open_phases(network), norm)
    descent = ChainDescent.begun(chain_of(layered), tolerance=1e-6).lowered()
    assert descent.best is not None
    bound = proved_chain_bound(
        layered, descent.best.lam, None if norm == "l2" else descent.best.zeta
    )
    rng = np.random.default_rng(seed)
    most = 0.0
    for _ in range(400):
        pattern = tuple(rng.random(layer.units) < 0.5 for layer in network.hidden)
        jacobian = network.jacobian(pattern)
        if norm == "l2":
            most = max(most, float(np.linalg.norm(jacobian, 2)))
        else:
            corners = np.where(rng.random((64, sizes[0])) < 0.5, -1.0, 1.0)
            most = max(most, float(np.linalg.norm(corners @ jacobian.T, axis=1).max()))
    assert 0.0 < most <= bound * (1 + 1e-12)


@pytest.mark.parametrize("norms", [("l2", "l2"), ("l2", "linf"), ("linf", "l2"), ("linf", "linf")])
@pytest.mark.parametrize("bounded", [False, True])
def test_both_ways_have_the_same_optimum(norms: tuple[Norm, Norm], bounded: bool) -> None:
    network = random_network(5, (4, 7, 6, 6, 5, 3), slope=0.1)
    domain = Box(-0.5, 0.5, 4) if bounded else AllSpace(4)
    problem = LipschitzProblem(network, domain, *norms)
    phases = preactivation_bounds(network, domain).phases
    targets = semidefinite_targets(problem)
    known = np.full(targets.count, np.inf)
    chain = ChainBounds.of(network, problem.output_norm, phases, targets, known)
    assert chain is not None
    left = presolve(network, targets.functionals, AllSpace(4), phases)
    root = RootBounds.of(left.system, targets, left.phases, norm=problem.output_norm)
    reports: list[float] = []
    lowered = chain.run(report=reports.append)
    assert lowered.done
    assert lowered.value == reports[-1]
    assert reports == sorted(reports, reverse=True)
    assert lowered.value == pytest.approx(root.run().value, rel=5e-3)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_gradients_alone_come_near_the_optimum(norm: Norm, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for thousands of units, whose Hessians are not formed."""
    network = random_network(4, (6, *(8,) * 8, 3))
    layered = layered_of(network, open_phases(network), norm)
    newton = ChainDescent.begun(chain_of(layered)).lowered()
    monkeypatch.setattr(chain_descent, "SECOND_ORDER", 0)
    begun = ChainDescent.begun(chain_of(layered))
    found = begun.lowered()
    assert found.done
    assert found.newton == 0
    assert newton.value * (1 - 1e-3) <= found.value <= newton.value * 1.01 < begun.value


def test_where_chains_do_not_serve_there_are_none() -> None:
    network = random_network(0, (4, 6, 6, 6, 3))
    everywhere, phases = AllSpace(4), open_phases(network)

    def of(problem: LipschitzProblem) -> ChainBounds | None:
        targets = semidefinite_targets(problem)
        known = np.full(targets.count, np.inf)
        return ChainBounds.of(network, problem.output_norm, phases, targets, known)

    assert of(LipschitzProblem(network, everywhere, "l2", "l2")) is not None
    assert of(LipschitzProblem(network, everywhere, "l1", "l2")) is None
    problem = LipschitzProblem(network, everywhere, "l2", "l2")
    targets = semidefinite_targets(problem)  # and they are not chosen where networks are small
    known = np.full(targets.count, np.inf)
    assert chain_bounds(network, problem.output_norm, phases, targets, known) is None
    assert chain_bounds(None, problem.output_norm, phases, targets, known) is None


def test_directions_are_inputs_where_nothing_is_rounded() -> None:
    network = random_network(1, (4, 6, 6, 6, 3))
    along = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 0.5], [0.0, -1.0]])
    assert exact_tangents(network, along / 3.0) is None
    assert exact_tangents(network, None) is network
    inner = 2.0 * network.layers[0].dense_weight // 1.0  # of whole numbers: nothing is rounded
    network = Network([Layer(inner, np.zeros(6), 0.0, 1.0), *network.layers[1:]])
    tangents = exact_tangents(network, along)
    assert tangents is not None
    problem = LipschitzProblem(network, AllSpace(4), "l2", "l2", directions=along)
    targets, phases = semidefinite_targets(problem), open_phases(network)
    known = np.full(targets.count, np.inf)
    chain = ChainBounds.of(tangents, problem.output_norm, phases, targets, known)
    assert chain is not None
    assert chain.run().value == pytest.approx(
        solve(problem, "lipsdp", attain=False).upper, rel=5e-3
    )


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_deep_networks_end_far_below_the_product_of_norms(norm: Norm) -> None:
    """Twenty random layers of 48 units: one matrix ends above it, by orders of magnitude."""
    problem = LipschitzProblem(random_network(0, (*(48,) * 21, 3)), AllSpace(48), norm, norm)
    naive = solve(problem, "naive", attain=False).upper
    names = ("eclipse", "sdp", "lipsdp")[: 3 if norm == "l2" else 2]
    quick, *long = (solved(problem, name, 1.0).upper for name in names)
    lower = solve(problem, "local_search", time_limit=0.3).lower
    assert 0.0 < lower < min(long) <= max(long) < 0.9 * quick
    assert quick < 0.01 * naive


def test_roots_of_searches_begin_with_chains() -> None:
    """One matrix ends above the product of norms here, by orders of magnitude."""
    problem = LipschitzProblem(random_network(0, (*(64,) * 21, 3)), AllSpace(64), "l2", "l2")
    found = solved(problem, "bnb", 1.0)
    assert 0.0 < found.lower < found.upper < 0.01 * solve(problem, "naive", attain=False).upper


def test_a_limit_is_kept_and_the_bound_holds() -> None:
    problem = LipschitzProblem(random_network(1, (*(64,) * 21, 3)), AllSpace(64), "l2", "l2")
    targets = semidefinite_targets(problem)
    network, known = problem.network, np.full(targets.count, np.inf)
    chain = chain_bounds(network, problem.output_norm, open_phases(network), targets, known)
    assert chain is not None
    clock = Clock(1.0)
    ended = chain.run(clock=clock)
    assert clock.seconds < 5.0
    assert ended.stopped
    assert ended.value < np.inf


def residual_network(seed: int, inputs: int, width: int, blocks: int) -> Network:
    """A residual network: identity units carry the skips past each block's first layer."""
    rng = np.random.default_rng(seed)
    eye, zero, one = np.eye(width), np.zeros(width), np.ones(width)

    def weight(n: int, k: int, gain: float) -> FloatArray:
        return rng.standard_normal((n, k)) * gain / np.sqrt(k)

    layers = [Layer(weight(width, inputs, 1.4), zero, 0.0, 1.0)]
    left, right = np.concatenate([zero, one]), np.ones(2 * width)
    for _ in range(blocks):
        inner = np.vstack([weight(width, width, 1.4), eye])
        layers.append(Layer(inner, np.zeros(2 * width), left, right))
        layers.append(Layer(np.hstack([weight(width, width, 0.4), eye]), zero, 0.0, 1.0))
    return Network([*layers, Layer(weight(3, width, 1.0), np.zeros(3))], "residual")


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_residual_networks_have_one_optimum_with_and_without_dead_units(norm: Norm) -> None:
    """Rows of 1e-39, as training leaves them behind, neither stall the descent nor its proof."""
    network = residual_network(0, 20, 6, 5)

    def lowered(network: Network) -> float:
        layered = layered_of(network, open_phases(network), norm)
        best = ChainDescent.begun(chain_of(layered)).lowered().best
        assert best is not None
        return proved_chain_bound(layered, best.lam, None if norm == "l2" else best.zeta)

    bound = lowered(network)
    reference = solve(
        LipschitzProblem(network, AllSpace(20), norm, "l2"), "lipsdp", attain=False
    ).upper
    assert bound == pytest.approx(reference, rel=3e-3)
    first, second, *rest = network.layers
    rows = np.vstack([first.dense_weight, 1e-39 * first.dense_weight[:2]])
    more = np.hstack([second.dense_weight, np.ones((second.units, 2))])
    added = Layer(rows, np.zeros(len(rows)), 0.0, 1.0)
    passed = Layer(more, second.bias, second.left, second.right)
    assert lowered(Network([added, passed, *rest])) == pytest.approx(bound, rel=3e-3)


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_deep_smooth_networks_have_ranges_of_slopes(norm: Norm) -> None:
    rng = np.random.default_rng(0)
    sizes = (3, *(5,) * 6, 2)
    weights = [rng.standard_normal((n, k)) * 1.5 / np.sqrt(k) for k, n in pairwise(sizes)]
    network = Network.from_arrays(
        weights, [np.zeros(n) for n in sizes[1:]], activation="tanh", name="tanh"
    )
    problem = LipschitzProblem(network, Box(-0.5, 0.5, 3), norm, "l2")
    bounds = preactivation_bounds(network, problem.domain)
    sloped = problem.with_network(with_slopes(network, bounds))
    targets = semidefinite_targets(sloped)
    known = np.full(targets.count, np.inf)
    chain = ChainBounds.of(sloped.network, sloped.output_norm, bounds.phases, targets, known)
    assert chain is not None
    upper = chain.run().value
    points = rng.uniform(-0.5, 0.5, (500, 3))
    corners = np.array(list(product((-1.0, 1.0), repeat=3)))
    for point in points:
        jacobian = network.jacobian_at(point)
        size = np.linalg.norm(jacobian, 2)
        if norm == "linf":
            size = np.linalg.norm(corners @ jacobian.T, axis=1).max()
        assert size <= upper
    least = min(upper, solve(problem, "naive", attain=False).upper)
    assert least == pytest.approx(solve(problem, "lipsdp", attain=False).upper, rel=5e-3)


def test_roots_of_wide_smooth_networks_take_chains() -> None:
    """All of R^d: slopes of tanh are anywhere in [0, 1], and one matrix takes many seconds."""
    rng = np.random.default_rng(0)
    sizes = (64, *(64,) * 16, 3)
    weights = [rng.standard_normal((n, k)) * 1.4 / np.sqrt(k) for k, n in pairwise(sizes)]
    network = Network.from_arrays(weights, [np.zeros(n) for n in sizes[1:]], activation="tanh")
    problem = LipschitzProblem(network, AllSpace(64), "l2", "linf")
    found = solved(problem, "bnb", 1.0)
    assert 0.0 < found.lower < found.upper < 0.1 * solve(problem, "naive", attain=False).upper
