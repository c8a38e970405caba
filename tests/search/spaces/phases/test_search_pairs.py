"""Searches with products of pairs of units: the same constants, and no looser roots."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lipyomo import Box, LipschitzProblem, Network, Settings, solve
from lipyomo.base.clock import Clock
from lipyomo.relaxations.cascade import QUICK, Cascade
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.relaxations.semidefinite.bounder import Bounder
from lipyomo.search.engine.engine import Engine
from lipyomo.search.spaces.phases.params import Params
from lipyomo.search.spaces.phases.pipeline import PhasePipeline, pipeline_for
from networks import mixed_network, random_network


def stepwise(problem: LipschitzProblem) -> PhasePipeline:
    """A search whose root is lowered step by step, as that of a large network is."""
    problem = problem.reduced.problem
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    cascade.run(QUICK)
    params = Params(long_root=0.0, switched=math.inf)
    return pipeline_for(problem, Settings(), None, cascade, params=params)


@pytest.mark.parametrize("mixed", [False, True])
def test_constants_are_those_without_pairs(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on networks whose other kernels are cheaper, so that the answers are known."""
    monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: True)
    make = mixed_network if mixed else random_network
    network = make(0, (4, 10, 9, 8, 2))
    problem = LipschitzProblem(network, Box(0.0, 0.7, 4), "linf", "linf")
    plain = solve(problem, "bnb")
    pipeline = stepwise(problem)
    found = Engine(pipeline, Clock()).run()
    assert pipeline.recipe().question.pairs.count > 4
    assert plain.status == "exact"
    assert found.complete
    assert found.best.value == pytest.approx(plain.lower, rel=1e-9)
    assert found.upper == pytest.approx(plain.upper, rel=1e-6)


def five_features() -> LipschitzProblem:
    """Units that see five features of 300 inputs exclude each other's sides often."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((5, 300)) / 20.0
    first = rng.standard_normal((150, 5)) @ features
    second, last = rng.standard_normal((60, 150)) / 12.0, rng.standard_normal((1, 60))
    center = rng.uniform(0.0, 1.0, 300)
    biases = [0.1 * rng.standard_normal(150) - first @ center, np.zeros(60), np.zeros(1)]
    network = Network.from_arrays([first, second, last], biases)
    return LipschitzProblem(network, Box(center - 0.05, center + 0.05), "linf", "linf")


def test_pairs_lower_the_root_of_a_wide_network(monkeypatch: pytest.MonkeyPatch) -> None:
    roots = []
    for wanted in (True, False):
        if not wanted:
            monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: False)
        pipeline = stepwise(five_features())
        (root,) = pipeline.root(Clock(), lambda upper=np.inf, best=None: None).outcome.children
        roots.append(root.bound)
        assert (pipeline.recipe().question.pairs is not None) == wanted
    assert roots[0] < 0.999 * roots[1]


def test_a_stopped_search_goes_on_with_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Multipliers of products are kept with the nodes, in the order of the pairs."""
    monkeypatch.setattr(Bounder, "takes_pairs", lambda *given: True)
    problem = LipschitzProblem(random_network(3, (9, 16, 16, 2)), Box(0, 1, 9), "linf", "cross")
    first, again = stepwise(problem), stepwise(problem)
    root = first.root(Clock(), lambda upper=np.inf, best=None: None).outcome.children
    outcome = first.process(first.plan(root, travels=False), Clock(), lambda: None)
    again.decode(first.encode(outcome.children))
    pairs = again.recipe().question.pairs
    assert pairs.count > 0
    assert (pairs.exclusive == first.recipe().question.pairs.exclusive).all()
    saved, ends = again.decode(first.encode(outcome.children)).children, []
    for pipeline, nodes in ((first, outcome.children), (again, saved)):
        more = pipeline.process(pipeline.plan(nodes, travels=False), Clock(), lambda: None)
        ends.append(sorted(node.bound for node in more.children))
        assert max(ends[-1]) <= max(node.bound for node in outcome.children) * (1 + 1e-9)
    assert ends[0] == pytest.approx(ends[1], rel=1e-6)
