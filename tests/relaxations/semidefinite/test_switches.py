"""Bounds by switches that depend on the inputs are never below what points attain."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, Settings, solve
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.networks.phases import LEFT, RIGHT
from lipyomo.relaxations.cascade import QUICK, Cascade
from lipyomo.relaxations.linear.preactivation import preactivation_bounds
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.relaxations.semidefinite.switched_bounds import PartBounds, SwitchedMinimum
from lipyomo.search.engine import Engine
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.pipeline import PhasePipeline, pipeline_for


def drawn(sizes: tuple[int, ...], seed: int, scale: float = 1.0) -> Network:
    """Normal weights; a unit of each hidden layer is dead, one has no weights."""
    rng = np.random.default_rng(seed)
    weights = [scale * rng.standard_normal((n, m)) / np.sqrt(m) for m, n in pairwise(sizes)]
    biases = [0.3 * scale * rng.standard_normal(n) for n in sizes[1:]]
    for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
        weight[0] = 0.0
        bias[1] = -100.0 * scale
    return Network.from_arrays(weights, biases)


def lowered(
    problem: LipschitzProblem, context: PhaseContext, sides: dict[int, bool]
) -> list[SwitchedMinimum]:
    """The minima of all targets where some units are decided."""
    known = preactivation_bounds(problem.network, problem.domain)
    lower, upper = np.concatenate(known.lower), np.concatenate(known.upper)
    phases = context.system.root_phases()
    phases[lower >= 0.0], phases[upper <= 0.0] = RIGHT, LEFT
    for unit, on in sides.items():
        phases[unit] = RIGHT if on else LEFT
    form, domain = context.system.form(phases), problem.domain
    decided = np.array(list(sides), dtype=np.int64)
    on = np.array(list(sides.values()), dtype=bool)
    part = PartBounds(lower, upper, domain.lower, domain.upper, decided, on)
    bounder = context.with_switches().switches
    assert bounder is not None
    count = context.targets.count
    return [bounder.lowered(form, part, target, 0.0, Clock()) for target in range(count)]


def attained(problem: LipschitzProblem, sides: dict[int, bool]) -> FloatArray:
    """The largest l1 norm of each output's gradient at random points with these sides."""
    rng, domain, network = np.random.default_rng(1), problem.domain, problem.network
    x = rng.uniform(domain.lower, domain.upper, (4000, network.input_dim))
    corners = np.where(rng.random(x.shape) < 0.5, domain.lower, domain.upper)
    x = np.concatenate([x, corners])
    gradients = np.repeat(np.eye(network.input_dim)[None], len(x), axis=0)
    active: list[FloatArray] = []
    for layer in network.hidden:
        z = x @ layer.dense_weight.T + layer.bias
        slope = np.where(z > 0.0, layer.right, layer.left)
        active.append(z > 0.0)
        x, gradients = slope * z, slope[:, :, None] * (layer.dense_weight @ gradients)
    inside = np.concatenate(active, axis=1)
    keep = (inside[:, list(sides)] == list(sides.values())).all(axis=1)
    rows = np.abs(network.head.dense_weight @ gradients).sum(axis=2)
    return np.asarray(np.max(rows[keep], axis=0, initial=0.0))


@pytest.mark.parametrize("sizes", [(5, 12, 2), (3, 8, 7, 2), (4, 6, 6, 5, 1)])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_never_below_points(sizes: tuple[int, ...], scale: float) -> None:
    for seed in range(2):
        network = drawn(sizes, seed, scale)
        problem = LipschitzProblem(network, Box(-1.0, 1.0, sizes[0]), output_norm="linf")
        context = PhaseContext.of(PhaseQuestion(problem))
        known = preactivation_bounds(network, problem.domain)
        ends = np.concatenate(known.lower), np.concatenate(known.upper)
        unstable = np.flatnonzero((ends[0] < 0.0) & (ends[1] > 0.0))
        rng = np.random.default_rng(seed)
        for count in (0, 2):
            chosen = rng.permutation(unstable)[:count].tolist()
            sides = {unit: bool(rng.random() < 0.5) for unit in chosen}
            below = attained(problem, sides)
            for found, least in zip(lowered(problem, context, sides), below, strict=True):
                assert least <= found.bound * (1.0 + 1e-12)


@pytest.mark.parametrize("sizes", [(12, 9, 1), (10, 5, 4, 1)])
def test_joined_directions(sizes: tuple[int, ...]) -> None:
    """A unit that is always on gives five partial derivatives their sign."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        weights = [rng.standard_normal((n, m)) for m, n in pairwise(sizes)]
        biases = [0.3 * rng.standard_normal(n) for n in sizes[1:]]
        weights[0][0], weights[0][0, :5] = 0.0, [40.0, 40.0, 40.0, -40.0, -40.0]
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            bias[0] = 1000.0
            weight[1:, 0] = 0.0
        weights[0][1:, 0] = 0.1
        weights[1][0, 0] = weights[-1][0, 0] = 1.0
        network = Network.from_arrays(weights, biases)
        problem = LipschitzProblem(network, Box(-1.0, 1.0, sizes[0]), output_norm="linf")
        context = PhaseContext.of(PhaseQuestion(problem))
        given = context.system, context.targets, context.system.root_phases()
        joined = replace(context, bounder=Bounder(*given, join=True))
        for sides in ({}, {1: True, 3: False}):
            (found,) = lowered(problem, joined, sides)
            assert found.signs is not None
            assert np.count_nonzero(found.signs) >= 5
            assert attained(problem, sides).item() <= found.bound * (1.0 + 1e-12)


@pytest.mark.parametrize("sizes", [(3, 8, 7, 2), (3, 14, 4, 1), (4, 6, 6, 5, 1)])
def test_sides_behind_all_open_units(sizes: tuple[int, ...]) -> None:
    """Where a whole last layer is decided, its rows see switches that are none of the program's."""
    for seed in range(8):
        network = drawn(sizes, seed)
        problem = LipschitzProblem(network, Box(-1.0, 1.0, sizes[0]), output_norm="linf")
        context = PhaseContext.of(PhaseQuestion(problem))
        known = preactivation_bounds(network, problem.domain)
        ends = np.concatenate(known.lower), np.concatenate(known.upper)
        unstable = np.flatnonzero((ends[0] < 0.0) & (ends[1] > 0.0))
        layer_of = context.system.layer_of[unstable]
        last, rng = unstable[layer_of == layer_of.max()].tolist(), np.random.default_rng(seed)
        if len(last) == unstable.size:
            continue
        for _ in range(4):
            sides = {unit: bool(rng.random() < 0.5) for unit in last}
            below = attained(problem, sides)
            for found, least in zip(lowered(problem, context, sides), below, strict=True):
                assert least <= found.bound * (1.0 + 1e-12)


@pytest.mark.parametrize("sizes", [(6, 14, 2), (5, 8, 7, 2), (4, 6, 6, 5, 1)])
def test_searches_end_alike(sizes: tuple[int, ...]) -> None:
    problem = LipschitzProblem(drawn(sizes, 7), Box(-0.5, 0.5, sizes[0]), output_norm="linf")
    plain, switched = (
        Engine(PhasePipeline(PhaseQuestion(problem, switched=by)), Clock()).run()
        for by in (False, True)
    )
    assert plain.complete
    assert switched.complete
    assert switched.best.value == pytest.approx(plain.best.value, rel=1e-6)
    assert switched.upper <= plain.best.value * (1.0 + 2e-6)


def test_checkpoints_know_of_switches() -> None:
    problem = LipschitzProblem(drawn((5, 8, 7, 2), 7), Box(-0.5, 0.5, 5), output_norm="linf")
    for by in (False, True):
        first, second = (
            PhasePipeline(PhaseQuestion(problem, switched=by)),
            PhasePipeline(PhaseQuestion(problem)),
        )
        Engine(first, Clock()).run()
        second.decode(first.encode([]))
        assert bool(second.encode([])["switched"]) == by


@pytest.mark.parametrize("many", [1, 1000])
def test_roots_of_many_unstable_units_have_switches(many: int) -> None:
    """If they take long enough to be bounded step by step."""
    problem = LipschitzProblem(drawn((5, 8, 7, 2), 7), Box(-0.5, 0.5, 5), output_norm="linf")
    problem = problem.reduced.problem
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    cascade.run(QUICK)
    params = Params(long_root=0.0, many=many)
    pipeline = pipeline_for(problem, Settings(), None, cascade, params=params)
    found = Engine(pipeline, Clock()).run()
    assert pipeline.recipe().question.switched == (many == 1)
    assert found.upper == pytest.approx(solve(problem, "bnb").upper, rel=1e-6)
