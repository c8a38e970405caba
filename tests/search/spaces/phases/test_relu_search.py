"""The engine with piecewise-linear networks: parts cover the domain, tasks are values."""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import InlineExecutor, Workers
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.domains import AllSpace, Box, Domain, ball
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.engine.checkpoint import Checkpoint
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import Outcome, Recipe, Task
from lipyomo.search.spaces.phases.context import PhaseContext, PhaseQuestion
from lipyomo.search.spaces.phases.node import PhaseNode
from lipyomo.search.spaces.phases.params import Params as ReluParams
from lipyomo.search.spaces.phases.pipeline import PhasePipeline
from lipyomo.search.spaces.phases.points import Points
from networks import mixed_network, random_network

HARD = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")
"""Thirty nodes or more."""


def _search(question: PhaseQuestion, workers: int | None = None, **others: Any) -> Found[PhaseNode]:
    team = None if workers is None else Workers[Any, Any](workers, executor=InlineExecutor())
    return Engine(PhasePipeline(question), Clock(60.0), workers=team, **others).run()


@cache
def answer() -> Found[PhaseNode]:
    """What the search says of `HARD`, undisturbed."""
    return _search(PhaseQuestion(HARD))


def _holds(
    question: PhaseQuestion, nodes: list[PhaseNode], points: int = 300
) -> list[tuple[Any, Any]]:
    """Random points of the domain, each with the nodes that hold it."""
    kinked = PhaseContext.of(question).system.kinked
    phases = np.stack([node.phases for node in nodes])
    low, high = (np.stack([getattr(node, side) for node in nodes]) for side in ("low", "high"))
    problem = question.problem
    found = []
    for x in problem.domain.sample(np.random.default_rng(5), points):
        on = np.hstack(problem.network.pattern(x[None]))[0]
        holds = ((phases == OPEN) | ((phases == RIGHT) == on) | ~kinked).all(axis=1)
        found.append((x, holds & (x >= low).all(axis=1) & (x <= high).all(axis=1)))
    return found


def _coverage(problem: LipschitzProblem, workers: int | None = None) -> None:
    """Every random point lies in a fathomed node whose bound covers its gradient norm."""
    question = PhaseQuestion(problem.reduced.problem, record=True)
    found = _search(question, workers)
    assert found.complete
    bounds = np.array([bound for _, bound in found.fathomed])
    for x, holds in _holds(question, [node for node, _ in found.fathomed]):
        value = question.problem.value_at(x).value
        assert bounds[holds].max() >= value * (1 - 1e-9)
        assert value <= found.upper


WHERE = (Box(0, 1, 4), ball([0.2] * 4, 0.8, "l2"), ball([0.2] * 4, 0.8, "l1"), AllSpace(4))


@pytest.mark.parametrize(
    ("domain", "input_norm"),  # each domain in two norms
    [(one, ("linf", "l1", "l2")[(i + j) % 3]) for i, one in enumerate(WHERE) for j in range(2)],
    ids=repr,
)
def test_what_is_fathomed_covers_the_domain_when_units_are_split(
    domain: Domain, input_norm: str
) -> None:
    network = mixed_network(31, (4, 8, 6, 2))
    _coverage(LipschitzProblem(network, domain, input_norm, "linf"))


@pytest.mark.parametrize("output", ["l2", "l1", "cross"])
def test_what_is_fathomed_covers_the_domain_when_boxes_are_split(output: str) -> None:
    _coverage(LipschitzProblem(random_network(6, (2, 12, 10, 2)), Box(-1, 1, 2), "linf", output))


def test_what_all_workers_fathom_covers_the_domain() -> None:
    _coverage(HARD, workers=2)


def _some_nodes(home: PhasePipeline, turns: int) -> list[PhaseNode]:
    """Nodes that a search without any incumbent beyond the first ones comes to."""
    nodes = list(home.root(Clock(), lambda upper=np.inf, best=None: None).outcome.children)
    for _ in range(turns):
        task = home.plan(nodes, travels=False)
        nodes = list(home.adopt(home.process(task, Clock(), lambda: None)).children)
    return nodes


@pytest.mark.parametrize("seed", range(3))
def test_bounds_that_are_not_proved_close_nothing_once_an_incumbent_overtakes_them(
    seed: int,
) -> None:
    """Bounds in floating point that are made up, and too low."""
    network = random_network(seed, (5, 7, 6, 3), bias=1.0)
    problem = LipschitzProblem(network, Box(-1, 1, 5), "linf", "linf")
    truth = _search(PhaseQuestion(problem)).best.value
    home = PhasePipeline(PhaseQuestion(problem, record=True))
    (root,) = _some_nodes(home, 0)
    assert root.bound > truth * (1 + 1e-6)
    low = np.full(root.targets.size, 0.5 * truth)
    node = root._replace(target_bounds=low, proved=np.full(low.size, np.inf))
    outcome = home.process(home.plan([node], travels=False), Clock(), lambda: None)
    bounds = [child.bound for child in outcome.children]
    assert max([*bounds, *(bound for _, bound in outcome.fathomed)]) >= truth * (1 - 1e-9)


ROUND = LipschitzProblem(random_network(1, (5, 9, 8, 2)), ball([0.2] * 5, 0.8, "l2"))
"""Programs of its nodes keep tangents of the ball."""


@pytest.mark.parametrize("problem", [HARD, ROUND], ids=["box", "ball"])
def test_equal_tasks_have_equal_outcomes_which_cover_their_nodes(problem: LipschitzProblem) -> None:
    home = PhasePipeline(PhaseQuestion(problem, record=True))
    nodes = _some_nodes(home, 1)
    task, content = home.plan(nodes, travels=True), pickle.dumps(home.recipe())
    outcomes: list[Outcome[PhaseNode]] = []
    first: Recipe[PhaseNode, Task[PhaseNode]] = pickle.loads(content)
    pipeline = first.pipeline()
    for worker in (pipeline, pipeline, pickle.loads(content).pipeline()):
        outcomes.append(worker.process(pickle.loads(pickle.dumps(task)), Clock(), lambda: None))
        worker.process(home.plan(nodes[:1], travels=True), Clock(), lambda: None)
    for other in outcomes[1:]:
        assert outcomes[0].counters == other.counters
        assert outcomes[0].closed == other.closed
        pairs = zip(outcomes[0].children, other.children, strict=True)
        for one, two in pairs:
            assert one.bound == two.bound
            assert (one.phases == two.phases).all()
            assert (one.target_bounds == two.target_bounds).all()
    parts = [*outcomes[0].children, *(node for node, _ in outcomes[0].fathomed)]
    before = _holds(PhaseQuestion(problem), nodes)
    after = _holds(PhaseQuestion(problem), parts)
    assert any(holds.any() for _, holds in before)
    for (_, given), (_, came) in zip(before, after, strict=True):
        assert came.any() or not given.any()


def test_what_is_known_of_nodes_is_saved() -> None:
    home = PhasePipeline(
        PhaseQuestion(LipschitzProblem(random_network(6, (2, 12, 10, 3)), Box(-1, 1, 2)))
    )
    nodes = [node._replace(dropped=0.5 + k) for k, node in enumerate(_some_nodes(home, 2))]
    again = PhasePipeline(home.recipe().question).decode(home.encode(nodes)).children
    assert len(again) == len(nodes) > 2
    assert any(node.certificates for node in nodes)
    for one, two in zip(nodes, again, strict=True):
        assert (one.dropped, one.trail, one.bound) == (two.dropped, two.trail, two.bound)
        for name in ("phases", "lower", "upper", "low", "high", "targets", "target_bounds"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        for name in ("proved", "points", "candidates", "features"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
        assert one.certificates.keys() == two.certificates.keys()
        for target, own in one.certificates.items():
            np.testing.assert_array_equal(own.units, two.certificates[target].units)
            np.testing.assert_array_equal(own.multipliers, two.certificates[target].multipliers)
            np.testing.assert_array_equal(own.signs, two.certificates[target].signs)


def test_points_on_kinks_and_outside_prove_no_region() -> None:
    """Of max(x, 0) on [-1, 1]."""
    problem = LipschitzProblem(Network.from_arrays([[[1.0]], [[1.0]]]), Box(-1, 1, 1))
    context = PhaseContext.of(PhaseQuestion(problem))
    points = Points(context, np.random.default_rng(0))
    entered = points.enter(np.array([[0.0], [1e-300], [0.5], [-0.5], [1.0], [2.0]]))
    assert entered.tolist() == [-1.0, 1.0, 1.0, 0.0, 1.0, -1.0]
    assert points.pool.count == 4


@pytest.mark.parametrize("workers", [None, 2])
def test_a_short_queue_changes_the_order_but_not_the_answer(workers: int | None) -> None:
    params = Params(queue_share=1 << 60, least_queue=4)
    found = _search(PhaseQuestion(HARD), workers, params=params)
    assert found.complete
    assert found.best.value == pytest.approx(answer().best.value, rel=1e-9)


def test_a_full_store_of_points_does_not_change_the_answer() -> None:
    home = PhasePipeline(PhaseQuestion(HARD, params=ReluParams(pool_bytes=40 * (8 * 8 + 20 + 1))))
    found = Engine(home, Clock(60.0)).run()
    assert len(home.encode([])["points"]) == 40
    assert found.complete
    assert found.best.value == pytest.approx(answer().best.value, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
def test_waiting_nodes_are_proved_at_their_bounds(seed: int) -> None:
    sizes = (8, 10, 10, 2)
    problem = LipschitzProblem(random_network(seed, sizes), Box(0, 1, 8), functional=[1.0, -1.0])
    home, excluded = PhasePipeline(PhaseQuestion(problem)), 0
    nodes = _some_nodes(home, 0)
    for _ in range(12):
        task = home.plan(nodes, travels=False)
        nodes = list(home.adopt(home.process(task, Clock(), lambda: None)).children)
        for node in nodes:
            (proved,) = home.prove([node], -np.inf).returned
            assert proved.bound == proved.proved_bound
            assert proved.bound <= node.bound * (1 + 1e-7)
            units = [own.units for own in node.certificates.values()]
            excluded += sum(int((node.phases[own] != OPEN).sum()) for own in units)
    assert excluded


class _Careful(PhasePipeline):
    """Proofs of waiting nodes never get below what was proved before."""

    settled = 0

    def prove(self, nodes: Any, cutoff: float) -> Outcome[PhaseNode]:
        known = [node._replace(target_bounds=node.proved) for node in nodes]
        closed = [node.bound for node in known if node.bound <= cutoff]
        self.settled += len(known) - len(closed)
        returned = tuple(node for node in known if node.bound > cutoff)
        return Outcome(returned=returned, closed=max(closed, default=-np.inf))

    def improve(self, effort: float, seeds: Any, clock: Clock) -> Any:
        return super().improve(effort, seeds, clock) if seeds else None


def test_nodes_whose_proofs_fall_short_are_split_further() -> None:
    params = Params(first_improvement=60.0)  # a good incumbent comes late, and overtakes nodes
    pipeline = _Careful(PhaseQuestion(HARD))
    found = Engine(pipeline, Clock(60.0), params=params).run()
    assert pipeline.settled
    assert found.complete
    assert found.upper == pytest.approx(answer().best.value, rel=1e-6)


def test_a_stop_is_heard_within_a_node() -> None:
    """It is there as soon as the node's first step ends, and the node comes back as it was."""
    begun: list[int] = []
    home = PhasePipeline(PhaseQuestion(HARD))
    (node,) = _some_nodes(home, 0)
    clock = Clock(should_stop=lambda: bool(begun))
    task = home.plan([node], travels=False)
    outcome = home.process(task, clock, lambda: begun.append(1))
    assert outcome.returned == (node,)
    assert not outcome.children
    assert len(begun) == 1


OFTEN = Params(checkpoint_seconds=0.0, checkpoint_share=math.inf)


def test_nodes_that_workers_hold_are_in_the_checkpoint(tmp_path: Path) -> None:
    path, kept = tmp_path / "state", []

    def keep(*_: object) -> None:
        if path.exists():
            kept.append((tmp_path / f"{len(kept)}").write_bytes(path.read_bytes()))

    checkpoint = Checkpoint(path, {"network": "hard"})
    _search(PhaseQuestion(HARD), 2, checkpoint=checkpoint, on_progress=keep, params=OFTEN)
    assert len(kept) > 3
    for number in np.linspace(0, len(kept) - 1, 3, dtype=int):
        resumed = Checkpoint(tmp_path / str(number), {"network": "hard"}, resume=True)
        found = _search(PhaseQuestion(HARD), checkpoint=resumed)
        assert found.complete
        assert found.best.value == pytest.approx(answer().best.value, rel=1e-9)
        assert found.upper >= answer().best.value * (1 - 1e-9)


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state"
    program = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "import pathlib\n"
        "from test_relu_search import _search, HARD, OFTEN, Question, Checkpoint\n"
        "checkpoint = Checkpoint(pathlib.Path(sys.argv[1]), {'network': 'hard'})\n"
        "_search(Question(HARD), checkpoint=checkpoint, params=OFTEN)\n"
    )
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parents[2]), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(here)], env=environment
    ) as process:
        while not path.exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    found = _search(
        PhaseQuestion(HARD), checkpoint=Checkpoint(path, {"network": "hard"}, resume=True)
    )
    assert found.complete
    assert found.best.value == pytest.approx(answer().best.value, rel=1e-9)
