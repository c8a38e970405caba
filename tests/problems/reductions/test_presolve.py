"""Networks with the units that a domain decides multiplied through: the same network, smaller."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from lipyomo import AllSpace, Box, LipschitzProblem, Network, Settings
from lipyomo.base.clock import Clock
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import flat
from lipyomo.problems.affine.system import UnitSystem
from lipyomo.problems.norms import InputNorm
from lipyomo.problems.reductions.presolve import Presolved, presolve
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.cascade import Cascade
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.semidefinite.root import RootBounds
from lipyomo.search.engine.engine import Engine
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.pipeline import pipeline_for


def _network(seed: int, slopes: tuple[float, float] = (0.0, 1.0)) -> Network:
    rng = np.random.default_rng(seed)
    sizes = [12, 90, 70, 60, 3]
    layers = [
        Layer(
            rng.standard_normal((n, m)) / np.sqrt(m),
            rng.standard_normal(n),
            *(slopes if n != 3 else (1.0, 1.0)),
        )
        for m, n in pairwise(sizes)
    ]
    return Network(layers)


def _problem(seed: int, radius: float, slopes: tuple[float, float]) -> LipschitzProblem:
    center = np.random.default_rng(100 + seed).standard_normal(12)
    box = Box(center - radius, center + radius)
    return LipschitzProblem(_network(seed, slopes), box, "linf", "linf")


def _small(problem: LipschitzProblem) -> Presolved:
    phases = preactivation_bounds(problem.network, problem.domain).phases
    return presolve(problem.network, np.eye(3), problem.domain, phases)


@pytest.mark.parametrize("slopes", [(0.0, 1.0), (0.1, 1.0), (-1.0, 1.0)])
def test_the_same_values_on_the_domain(slopes: tuple[float, float]) -> None:
    problem = _problem(0, 0.05, slopes)
    small = _small(problem)
    assert small.network.kinked_units < problem.network.kinked_units // 4
    points = problem.domain.sample(np.random.default_rng(0), 200)
    np.testing.assert_allclose(
        small.network.forward(points), problem.network.forward(points), rtol=1e-12, atol=1e-12
    )
    inner, outer = small.units.inner, small.units.outer
    ours = np.concatenate(small.network.preactivations(points), axis=1)[:, inner]
    theirs = np.concatenate(problem.network.preactivations(points), axis=1)[:, outer]
    assert (np.abs(ours - theirs) <= small.system.errors[inner]).all()
    assert small.system.errors[inner].max() < 1e-7


def test_values_of_units_are_those_of_the_open_ones() -> None:
    problem = _problem(0, 0.05, (0.0, 1.0))
    small = _small(problem)
    points = problem.domain.sample(np.random.default_rng(0), 20)
    given = np.concatenate(problem.network.pattern(points), axis=1)
    own = small.restrict(given, True)
    here = np.concatenate(small.network.pattern(points), axis=1)
    assert (own == here)[:, small.system.kinked].all()
    assert own[:, ~small.system.kinked].all()


@pytest.mark.parametrize("slopes", [(0.0, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize("input_norm", ["linf", "l2", "l1"])
def test_semidefinite_bounds_are_those_of_the_whole(
    input_norm: InputNorm, slopes: tuple[float, float]
) -> None:
    problem = _problem(1, 0.03, slopes)
    targets = Targets.of(np.eye(3), 3, 12, input_norm)
    phases = preactivation_bounds(problem.network, problem.domain).phases
    small = presolve(problem.network, targets.functionals, problem.domain, phases)
    whole = UnitSystem(problem.network, targets.functionals, problem.domain)
    assert small.system.count < whole.count // 2
    found = [
        RootBounds.of(system, targets, known).run().value
        for system, known in ((small.system, small.phases), (whole, flat(phases)))
    ]
    assert found[0] == pytest.approx(found[1], rel=2e-3)


@pytest.mark.parametrize(("seed", "slopes"), [(0, (0.0, 1.0)), (1, (-1.0, 1.0)), (2, (0.0, 1.0))])
def test_the_search_has_the_same_answer(seed: int, slopes: tuple[float, float]) -> None:
    problem = _problem(seed, 0.06, slopes)
    settings = Settings(time_limit=60.0)
    plain = Engine(pipeline_for(problem, settings), Clock()).run()
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    cascade.run()
    known = np.concatenate(cascade.bounds.phases)
    system = PhaseContext.of(PhaseQuestion(problem, known=known)).system
    assert system.count < problem.network.kinked_units
    found = Engine(pipeline_for(problem, settings, cascade=cascade), Clock()).run()
    assert found.complete
    assert plain.complete
    assert found.best.value == pytest.approx(plain.best.value, rel=1e-6)
    assert found.upper == pytest.approx(plain.upper, rel=1e-6)


def test_networks_with_many_open_units_stay_as_they_are() -> None:
    problem = _problem(0, 5.0, (0.0, 1.0))
    assert _small(problem).network is problem.network


def test_networks_on_unbounded_domains_stay_as_they_are() -> None:
    """Their rounding errors would have no bound."""
    network = _network(0)
    phases = tuple(np.zeros(layer.units, dtype=np.int8) for layer in network.hidden)
    assert presolve(network, np.eye(3), AllSpace(12), phases).network is network
