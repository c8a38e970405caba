"""Largest values on boxes that are handed over: the same as those of the search of phases."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from lipyomo import Box, Layer, Network, Polytope, ball
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.problems.domains import Domain
from lipyomo.search.engine.engine import Engine
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueContext, ValueQuestion
from lipyomo.search.objectives.few import FewPipeline, ValueBoxes, as_value_nodes, bounded_values
from lipyomo.search.objectives.objective import Largest
from lipyomo.search.objectives.pipeline import ValuePipeline
from lipyomo.search.spaces.joint.beside import JointTask
from lipyomo.search.spaces.joint.context import Params
from networks import random_network

BOXES = Params(compared=False)
DOMAINS = {
    "box": Box([-1.0, 0.0, -0.5], [1.0, 2.0, 0.25]),
    "l2": ball([0.1, -0.2, 0.3], 0.9, "l2"),
    "l1": ball([0.1, -0.2, 0.3], 1.1, "l1"),
    "polytope": Polytope([[1.0, 1.0, 1.0], [1.0, -2.0, 0.5]], [0.5, 0.8], lower=-1.0, upper=1.0),
}


def boxes_of(low: FloatArray, high: FloatArray) -> ValueBoxes:
    none = np.zeros(len(low), dtype=np.intp)
    return ValueBoxes(low, high, np.full(len(low), np.inf), none, none)


def agree(question: ValueQuestion, samples: int = 5000) -> None:
    found = Engine(FewPipeline(question, params=BOXES), Clock()).run()
    other = Engine(ValuePipeline(Largest(question)), Clock()).run()
    points = question.domain.sample(np.random.default_rng(1), samples)
    assert found.complete
    assert found.upper >= question.values(points).max() - 1e-12
    assert found.best.point is not None
    assert question.domain.holds(found.best.point)
    assert question.attained(found.best.point) == found.best.value
    assert found.best.value <= found.upper <= question.cutoff(found.best.value) + 1e-9
    assert found.best.value <= other.upper
    assert other.best.value <= found.upper


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_ends_are_those_of_the_search_of_phases(domain: Domain) -> None:
    agree(ValueQuestion(random_network(1, (3, 9, 8, 1), bias=1.0), np.ones(1), domain, 1.0))


@pytest.mark.parametrize("seed", range(3))
def test_many_units_agree(seed: int) -> None:
    agree(
        ValueQuestion(random_network(seed, (4, 16, 12, 1), bias=1.0), np.ones(1), Box(0, 1, 4), 1.0)
    )


@pytest.mark.parametrize("slopes", [(0.1, 1.0), (-0.5, 1.0), (1.0, 0.0)])
def test_all_slopes_agree(slopes: tuple[float, float]) -> None:
    network = random_network(4, (2, 14, 8, 2), bias=1.0)
    hidden = [Layer(v.dense_weight, v.bias, *slopes) for v in network.hidden]
    question = ValueQuestion(
        Network([*hidden, network.head]), np.array([1.0, -2.0]), Box(-1, 1, 2), 1.0
    )
    agree(question)


def test_kinks_that_meet_in_the_maximum() -> None:
    # minus the sum of |a . x| over many a: zero at the origin alone, which no box's middle is
    rows = np.random.default_rng(0).normal(size=(12, 3))
    weight = np.concatenate([rows, -rows])
    network = Network.from_arrays([weight, -np.ones((1, 24))])
    question = ValueQuestion(network, np.ones(1), Box([-0.3, -0.7, -0.1], [1.0, 0.5, 0.9]), 1.0)
    found = Engine(FewPipeline(question, params=BOXES), Clock()).run()
    assert found.complete
    assert 0.0 <= found.upper <= 1e-6
    assert -1e-6 <= found.best.value <= 0.0


def test_a_plateau_ends_at_once() -> None:
    first = random_network(0, (3, 20, 1), bias=1.0).hidden[0]
    second = Layer(-np.ones((8, 20)), np.full(8, -0.1), 0.0, 1.0)  # dead all over
    network = Network([first, second, Layer(np.ones((1, 8)), [0.5])])
    question = ValueQuestion(network, np.ones(1), Box(-1, 1, 3))
    found = Engine(FewPipeline(question, params=BOXES), Clock()).run()
    assert found.best.value == 0.5
    assert 0.5 <= found.upper <= 0.5 + 1e-6


def test_boxes_of_neighbouring_numbers_become_nodes() -> None:
    question = ValueQuestion(
        random_network(3, (2, 20, 20, 1), bias=1.0), np.ones(1), Box(0, 1, 2), 1.0
    )
    context = ValueContext.of(question).at(-100.0)
    low = np.array([[0.5, 0.25]])
    box, _ = bounded_values(context, boxes_of(low, np.nextafter(low, 1.0)))
    pipeline = FewPipeline(question, params=BOXES)
    task = JointTask((box,), None, Incumbent(-100.0, np.zeros(2)), -1.0)
    found = pipeline.process(task, Clock(), lambda: None)
    assert found.best is not None
    assert not any(isinstance(node, ValueBoxes) for node in found.children)
    left = max([found.closed, *(node.bound for node in found.children)])
    assert left >= question.values(low)[0] - 1e-12


@pytest.mark.parametrize("seed", range(4))
def test_bounds_hold_on_both_sides_of_the_cutoff(seed: int) -> None:
    network = random_network(seed, (3, 10, 10, 1), bias=1.0)
    question = ValueQuestion(network, np.ones(1), Box(-1, 1, 3))
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.uniform(-1.0, 1.0, (2, 20, 3)), axis=0)
    points = rng.uniform(ends[0][:, None], ends[1][:, None], (20, 500, 3))
    values = question.values(points.reshape(-1, 3)).reshape(20, 500)
    context = ValueContext.of(question).at(float(np.median(values)))
    found, _ = bounded_values(context, boxes_of(*ends))
    assert (found.bounds >= values.max(axis=1)).all()
    nodes = {tuple(node.low.tolist()): node for node in as_value_nodes(context, found)}
    z = np.hstack(context.system.network.preactivations(points.reshape(-1, 3)))[:, :20]
    for k in np.flatnonzero(values.max(axis=1) > context.cutoff):
        node, own = nodes[tuple(ends[0][k].tolist())], z.reshape(20, 500, 20)[k]
        assert (own >= node.lower[:20] - 1e-12).all()
        assert (own <= node.upper[:20] + 1e-12).all()


def test_tasks_travel() -> None:
    question = ValueQuestion(
        random_network(1, (3, 12, 10, 1), bias=1.0), np.ones(1), Box(-1, 1, 3), 1.0
    )
    home = FewPipeline(question, params=BOXES)
    (whole,) = home.root(Clock(), lambda upper=0.0, best=None: None).outcome.children
    task = pickle.loads(pickle.dumps(home.plan([whole], travels=True)))
    away = pickle.loads(pickle.dumps(home.recipe())).pipeline()
    here, there = (p.process(task, Clock(), lambda: None) for p in (home, away))
    assert [node.bound for node in here.children] == [node.bound for node in there.children]
    assert isinstance(here.children[0], ValueBoxes)
