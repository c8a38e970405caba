"""Directions that multipliers rule out: all of them, under all patterns, one by one."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem
from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Network
from lipyomo.networks.phases import flat
from lipyomo.problems.affine.system import NodeForm, UnitSystem
from lipyomo.problems.targets import targets_of
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.relaxations.semidefinite.directions import with_fewer_directions
from lipyomo.search.spaces.phases.bound import _with_fewer_directions
from lipyomo.search.spaces.phases.context import Context, Question
from lipyomo.search.spaces.phases.node import Part, Worst
from networks import random_network


def _bounded(network: Network, radius: float) -> tuple[Bounder, NodeForm]:
    d = network.input_dim
    problem = LipschitzProblem(network, Box(-radius, radius, d), "linf", functional=[1.0, -1.0])
    targets = targets_of(problem)
    system = UnitSystem(problem.network, targets.functionals, problem.domain)
    phases = np.concatenate(preactivation_bounds(problem.network, problem.domain).phases)
    return Bounder(system, targets, phases, join=True), system.form(phases)


def _values(form: NodeForm) -> tuple[FloatArray, FloatArray]:
    """All directions (2^d, d), and the largest value of each under any pattern."""
    vertices = np.array(list(product([1.0, -1.0], repeat=form.inputs)))
    largest = np.zeros(len(vertices))
    for pattern in product([0.0, 1.0], repeat=form.units.size):
        w = np.hstack([vertices, np.zeros((len(vertices), form.units.size))])
        for k, on in enumerate(pattern):
            w[:, form.inputs + k] = on * (w @ form.rows[k])
        largest = np.maximum(largest, np.abs(w @ form.objective[0]))
    return vertices, largest


def _agree(vertices: FloatArray, signs: FloatArray | None) -> np.ndarray:
    """Which directions have some signs, or all of the opposite ones."""
    if signs is None:
        return np.ones(len(vertices), dtype=bool)
    return np.asarray(np.abs(vertices @ signs) == np.abs(signs).sum())


def _twins(seed: int) -> Network:
    """Inputs that weigh the same, and units that are the same: nothing tells them apart."""
    rng = np.random.default_rng(seed)
    first, second = rng.standard_normal((4, 5)), rng.standard_normal((3, 4))
    first[:, 1], first[3] = first[:, 0], first[2]
    return Network.from_arrays(
        [first, second, rng.standard_normal((2, 3))], [np.zeros(4), np.zeros(3), np.zeros(2)]
    )


NETWORKS = [
    *(random_network(seed, (5, 4, 4, 2)) for seed in range(8)),
    *(random_network(seed, (6, 5, 2)) for seed in range(4)),
    *(_twins(seed) for seed in range(4)),
]


@pytest.mark.parametrize("radius", [0.3, 3.0])
def test_every_direction_is_left_or_below_the_bound(radius: float) -> None:
    joined = 0
    for network in NETWORKS:
        bounder, form = _bounded(network, radius)
        found = bounder.minimise(form, 0) if form.units.size else None
        if found is None:
            continue
        vertices, values = _values(form)
        before = bounder.prover.joining(0)
        known = _agree(vertices, before)
        assert values[known].max() <= found.state.value * (1 + 1e-9)
        for share in (0.75, 0.8, 0.85, 0.9, 0.95, 0.99, 1.0 - 1e-6):
            cutoff = share * found.state.value
            rest, closed = with_fewer_directions(bounder, form, found, cutoff, cutoff)
            left = _agree(vertices, before if rest.signs is None else rest.signs)
            assert values[known & left].max() <= rest.state.value * (1 + 1e-9)
            assert values[known & ~left].max(initial=-np.inf) <= closed <= cutoff
            assert rest.state.value <= found.state.value * (1 + 1e-9)
            proved = bounder.prover.bound(form, 0, rest.state.multipliers, rest.signs)
            assert values[known & left].max() <= proved
            joined += np.count_nonzero(known & ~left)
    assert joined > 100


def test_signs_are_known_up_to_a_common_one() -> None:
    bounder, form = _bounded(random_network(0, (5, 4, 4, 2)), 1e-3)
    fixed = bounder.prover.signs
    assert fixed is not None
    signs = fixed.within(form, 0, None)
    assert signs is not None
    assert (signs != 0).all()
    for turn in (1.0, -1.0):
        known = np.where(np.arange(5) < 2, turn * signs, 0.0)
        assert np.array_equal(fixed.within(form, 0, known), turn * signs)
    contrary = np.array([signs[0], -signs[1], 0.0, 0.0, 0.0])
    assert np.array_equal(fixed.within(form, 0, contrary), contrary)


def test_signs_that_nothing_connects_are_not_joined() -> None:
    """The derivatives by the last two inputs keep their signs, those that are known may not."""
    first = np.array([[1.0, 1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]])
    linear = np.array([[0.0, 0.0, 1.0, 1.0]])
    network = Network.from_arrays(
        [np.vstack([first, linear, -linear]), [[1.0, -1.0, 1.0, -1.0], [0.0] * 4]],
        [np.zeros(4), np.zeros(2)],
    )
    bounder, form = _bounded(network, 1.0)
    fixed = bounder.prover.signs
    assert fixed is not None
    known = np.array([1.0, 1.0, 0.0, 0.0])
    kept = fixed.within(form, 0, known)
    assert kept is not None
    assert np.array_equal(kept, known)


def test_a_node_keeps_the_bound_of_directions_that_it_leaves_out() -> None:
    out = 0
    for network in NETWORKS:
        box = Box(-0.3, 0.3, network.input_dim)
        problem = LipschitzProblem(network, box, "linf", functional=[1.0, -1.0])
        known = flat(preactivation_bounds(problem.network, box).phases)
        context = Context.of(Question(problem, known=known))
        node, bounder = context.whole(), context.bounder
        form = context.system.form(context.presolved.phases)
        found = bounder.minimise(form, 0) if form.units.size else None
        if found is None:
            continue
        vertices, values = _values(form)
        before = bounder.prover.joining(0)
        for share in (0.75, 0.85, 0.95):
            cutoff = share * found.state.value
            bounded = node.but(target_bounds=np.array([found.state.value]))
            part = Part(node, bounded, form, Worst.of(found))
            left = _with_fewer_directions(context, part, cutoff, cutoff)
            own = left.node.certificates.get(0)
            kept = _agree(vertices, before if own is None else own.signs)
            gone = _agree(vertices, before) & ~kept
            assert values[gone].max(initial=0.0) <= left.node.dropped
            if not left.is_open:
                assert values[_agree(vertices, before)].max() <= left.closed
            out += np.count_nonzero(gone)
    assert out > 50
