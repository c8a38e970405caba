"""The search of boxes, with nodes of phases, finds what brute force and the search of phases do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lipyomo
from lipyomo import Polytope, ball
from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import InlineExecutor
from lipyomo.networks.phases import OPEN
from lipyomo.problems.domains import Box, Domain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings
from lipyomo.relaxations.cascade import QUICK, Cascade
from lipyomo.relaxations.linear import preactivation_bounds
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.spaces.joint import context as contexts
from lipyomo.search.spaces.joint.adaptive import (
    ENDED,
    EXAMINED,
    SPLIT,
    NearCutoff,
)
from lipyomo.search.spaces.joint.bound import bounded_pairs
from lipyomo.search.spaces.joint.context import PARAMS, JointBoxes, JointContext, Params
from lipyomo.search.spaces.joint.halve import as_nodes, handed_over
from lipyomo.search.spaces.joint.pipeline import BoxesOrNode, JointPipeline
from lipyomo.search.spaces.joint.trial import Course, Race, Trial, by_boxes, soon_closed, tried
from lipyomo.search.spaces.phases.node import Split
from lipyomo.search.spaces.phases.pipeline import pipeline_for
from networks import DEGENERATE, integer_network, mixed_network, random_network
from oracle import exact_constant

HALVED = PARAMS._replace(compared=False)
SOME = HALVED._replace(handed=1.2, trial=8, bundle=4)
EVERY = HALVED._replace(handed=0.0, trial=8)
"""No box is handed over before it is thin, or in the others once it is near or very near."""


def searched(
    given: LipschitzProblem, params: Params, clock: Clock | None = None
) -> Found[BoxesOrNode]:
    problem = given.reduced.problem
    context = JointContext.of(problem, params)
    assert context is not None
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    cascade.run(QUICK)
    beside = pipeline_for(problem, Settings(), None, cascade)
    return Engine(JointPipeline(beside, context, cascade), clock or Clock()).run()


def check(problem: LipschitzProblem, params: Params, truth: float) -> None:
    found = searched(problem, params)
    assert found.complete
    assert found.best.value <= truth * (1 + 1e-9)
    assert found.best.value == pytest.approx(truth, rel=1e-6, abs=1e-9)
    assert truth * (1 - 1e-9) <= found.upper <= truth * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("norms", [("linf", "linf"), ("l1", "l1")])
def test_brute_force_agrees(seed: int, norms: tuple[str, str]) -> None:
    make = (random_network, mixed_network, integer_network)[seed % 3]
    network = make(seed, (1 + seed % 3, 5, 4, 2))
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim), *norms)
    truth = exact_constant(problem)
    for params in (HALVED, SOME):
        check(problem, params, truth)


@pytest.mark.parametrize(
    ("seed", "norms"),
    [(2, ("l2", "l2")), (1, ("l2", "linf")), (2, ("linf", "l2"))],
)
def test_brute_force_agrees_in_euclidean_norms(seed: int, norms: tuple[str, str]) -> None:
    network = random_network(seed, (2, 4, 4, 2 + seed % 2))
    problem = LipschitzProblem(network, Box(-1, 1, 2), *norms)
    truth = exact_constant(problem)
    for params in (HALVED, SOME):
        check(problem, params, truth)


@pytest.mark.parametrize(
    "domain",
    [
        ball([0.1, -0.2], 0.8, "l2"),
        ball([0.1, -0.2], 0.8, "l1"),
        Polytope([[1.0, 1.0], [-1.0, 2.0]], [0.5, 0.6], lower=-1.0, upper=1.0),
    ],
    ids=["l2", "l1", "polytope"],
)
@pytest.mark.parametrize("seed", range(2))
def test_balls_and_polytopes_are_searched_in_the_boxes_around_them(
    seed: int, domain: Domain
) -> None:
    problem = LipschitzProblem(random_network(seed, (2, 5, 4, 2), bias=1.0), domain, "linf", "linf")
    truth = exact_constant(problem)
    for params in (SOME, EVERY):
        check(problem, params, truth)


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks_are_solved(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain)
    if JointContext.of(problem.reduced.problem) is None:
        pytest.skip("not for boxes")
    truth = case.constant if case.constant is not None else exact_constant(problem)
    check(problem, HALVED, truth)


@pytest.mark.parametrize("seed", range(3))
def test_the_search_of_phases_agrees(seed: int) -> None:
    d = 2 + seed % 3
    problem = LipschitzProblem(random_network(seed, (d, 9, 6, 2)), Box(-1, 1, d))
    truth = lipyomo.solve(problem, "bnb").lower
    for params in (SOME, EVERY) if d == 2 else (SOME,):
        check(problem, params, truth)


@pytest.mark.parametrize(("seed", "left"), [(0, 10_000), (2, 100)])
def test_boxes_that_take_over_find_the_same(
    seed: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []

    def won(race: Race, top: float, best: Incumbent, nodes: int) -> Trial:
        taken.append(top)
        return tried(race.context, race.space, best, Clock(), most=SOME.trial)

    monkeypatch.setattr(Race, "won", won)
    problem = LipschitzProblem(random_network(seed, (4, 6, 5, 2)), Box(-1, 1, 4), "linf", "linf")
    truth = lipyomo.solve(problem, "bnb").lower
    polls = iter(range(left))
    clock = Clock(should_stop=lambda: next(polls, None) is None)
    found = searched(problem, SOME._replace(compared=True), clock)
    assert found.best.value <= truth * (1 + 1e-9)
    assert found.upper >= truth * (1 - 1e-9)
    if left > 100:
        assert found.complete
        assert found.upper <= truth * (1 + 1e-6)
        assert taken  # boxes took over


@pytest.mark.parametrize(
    ("sizes", "bias", "norms"),
    [
        ((1, 24, 24, 2), 0.5, ("linf", "linf")),
        ((2, 20, 20, 2), 0.5, ("l1", "l1")),
        ((2, 16, 16, 16, 1), 0.5, ("linf", "l1")),
        ((3, 16, 16, 2), 0.5, ("linf", "linf")),
        ((1, 12, 12, 2), 0.0, ("linf", "linf")),
        ((2, 8, 8, 2), 0.0, ("l1", "linf")),
        ((3, 6, 6, 2), 0.0, ("linf", "linf")),
    ],
)
def test_few_inputs_are_closed_by_boxes_early(
    sizes: tuple[int, ...], bias: float, norms: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    closed_early = Race._closed_early

    def looked(race: Race, best: Incumbent) -> Trial | None:
        taken.append(closed_early(race, best))
        return taken[-1]

    monkeypatch.setattr(Race, "_closed_early", looked)
    problem = LipschitzProblem(random_network(3, sizes, bias=bias), Box(-1, 1, sizes[0]), *norms)
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    cascade.run(QUICK)
    alone = Engine(pipeline_for(problem, Settings(), None, cascade), Clock()).run()
    check(problem, PARAMS._replace(early_nodes=1), alone.best.value)
    assert taken
    assert bias == 0.0 or taken[-1] is not None  # all kinks meet in a point


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_networks_are_closed_by_boxes_alone(name: str) -> None:
    case = DEGENERATE[name]()
    problem = LipschitzProblem(case.network, case.domain).reduced.problem
    context = JointContext.of(problem)
    if context is None or not problem.domain.is_box:
        pytest.skip("not for boxes")
    truth = case.constant if case.constant is not None else exact_constant(problem)
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    beside = pipeline_for(problem, Settings(), None, cascade)
    found = soon_closed(context, beside.context, beside.best, Clock(), 512)
    assert truth * (1 - 1e-9) <= found.bound
    assert found.best.value <= truth * (1 + 1e-9)
    assert found.bisected <= 512


def test_boxes_that_stay_far_above_the_cutoff_are_left() -> None:
    problem = LipschitzProblem(random_network(0, (4, *[8] * 6, 2)), Box(-8, 8, 4), "linf", "linf")
    context = JointContext.of(problem)
    assert context is not None
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    beside = pipeline_for(problem, Settings(), None, cascade)
    assert soon_closed(context, beside.context, beside.best, Clock(), 2048).bisected <= 128


def test_nodes_that_were_boxes_are_told_from_all_others() -> None:
    problem = LipschitzProblem(random_network(1, (2, 5, 4, 2)), Box([0.0, -1.0], [1.0, 1.0]))
    context = JointContext.of(problem)
    assert context is not None
    cascade = Cascade(problem, preactivation_bounds(problem.network, problem.domain))
    space = pipeline_for(problem, Settings(), None, cascade).context
    ends = np.array([[0.0, -1.0]]), np.array([[0.5, 0.0]])
    boxes = replace(context.whole(), low=ends[0], high=ends[1])
    (node,) = as_nodes(context, space, bounded_pairs(context, boxes, 0.0), 0.0)
    unit = int(np.flatnonzero(node.phases == OPEN)[0])
    halves = (Split(0, None, (0.0, 0.5)), Split(1, None, (-1.0, 0.0)))
    others = [node._replace(trail=trail) for trail in ((), halves, (Split(0, 1), *halves))]
    parts = node.sides(unit)
    kept = handed_over(context, [node, *others, *parts])
    assert [*map(id, kept)] == [*map(id, (node, *parts))]


def test_a_gap_falls_by_as_much_whenever_the_time_doubles() -> None:
    assert Course((1.0, 0.8), (2.0, 0.6)).after(2.0) == pytest.approx(0.4)
    assert Course((1.0, 0.8), (2.0, 0.2)).after(2.0) == 0.0  # closed
    assert Course((1.0, 0.8), (1.0, 0.8)).after(2.0) == 0.8  # a single look
    assert Course((1.0, 0.8), (2.0, 0.9)).after(2.0) == 0.9


def test_a_course_trails_another_where_it_is_above_and_falls_no_faster() -> None:
    slow, fast = Course((1.0, 1.2), (2.0, 1.0)), Course((1.0, 0.8), (2.0, 0.2))
    assert slow.trails(fast)
    assert not fast.trails(slow)
    assert not Course((1.0, 8.0), (2.0, 1.0)).trails(fast)  # above, but faster


def test_a_multiple_is_learnt_from_what_is_closed() -> None:
    reach = NearCutoff.first(PARAMS)
    assert reach.after({}) == reach
    assert 1.0 < reach.after({EXAMINED: 8}).handed < reach.handed
    assert reach.after({EXAMINED: 8, ENDED: 8}).handed > reach.handed


def test_fewer_boxes_are_handed_over_at_a_time_while_they_stay_open() -> None:
    reach = NearCutoff.first(PARAMS)
    failed = reach.after({EXAMINED: 8}).after({EXAMINED: 4})
    assert (reach.together, failed.together) == (8, 2)
    assert failed.after({EXAMINED: 2, ENDED: 1}).together == 4


def test_boxes_that_become_few_are_halved() -> None:
    reach, multiples = NearCutoff.first(PARAMS._replace(node=8.0)), np.array([1.01, 1.2, 1.5, 5.0])
    tenth = np.full(4, 0.1)  # three times in a node's time
    assert reach.are_handed(multiples, 0.0 * tenth).tolist() == [True, True, True, False]
    assert reach.are_handed(multiples, tenth).tolist() == [False, False, True, False]
    failed = reach.after({EXAMINED: 1, ENDED: 1, SPLIT: 4})  # at four nodes a box five times
    assert not failed.are_handed(multiples[:3], tenth[:3]).any()
    assert not reach.are_handed(multiples, np.full(4, np.inf)).any()


def test_what_halving_lowers_bounds_by_is_a_mean_of_the_last_times() -> None:
    once, pairs = np.ones(1, dtype=int), np.full((1, 1, 1), np.exp(1.0))
    ends, unknown = (np.zeros((1, 2)), np.ones((1, 2))), np.full(1, np.inf)
    whole = JointBoxes(*ends, unknown[:, None, None], np.array([[1.0, 3.0]]), unknown)
    first = replace(whole, pairs=pairs).fallen(whole, once)
    assert first.fall.tolist() == [np.inf]  # the domain's bound tells nothing
    second = replace(first, pairs=pairs * np.exp(-0.4)).fallen(first, once)
    assert second.fall == pytest.approx([0.4])
    assert second.fallen(second, once).fall == pytest.approx([0.2])
    assert replace(second, pairs=pairs * np.exp(-1.2)).fallen(
        second, 2 * once
    ).fall == pytest.approx([0.4])
    assert np.isinf(replace(second, pairs=pairs * -np.inf).fallen(second, once).bounds).all()
    quarters = second.halves()[0].halves()[0]  # the input that is worth most, twice
    assert np.ptp(np.hstack([quarters.low, quarters.high]), axis=0).tolist() == [0, 0.75, 0, 0.75]
    above = [second.are_far(np.exp(0.6 - gap), 3.0).item() for gap in (1.1, 1.3)]
    assert above == [False, True]  # three times 0.4 is between


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("norms", [("linf", "linf"), ("l1", "l1")])
def test_boxes_alone_prove_no_more_than_what_is_true(seed: int, norms: tuple[str, str]) -> None:
    make = (random_network, mixed_network, integer_network)[seed % 3]
    network = make(seed, (1 + seed % 2, 5, 4, 2))
    problem = LipschitzProblem(network, Box(-1, 1, network.input_dim), *norms).reduced.problem
    truth = exact_constant(problem)
    context = JointContext.of(problem)
    assert context is not None
    for share in (1.01, 0.9):
        space = pipeline_for(problem, Settings(), None, None, share * truth).context
        found = by_boxes(context, space, Clock())
        if found is None:
            assert share < 1.0 or make is not random_network  # kinks may meet in a point
            continue
        assert not found.children
        assert found.best is not None
        assert truth * (1 - 1e-9) <= found.closed <= max(1.01 * truth, found.best.value * 1.01)
        assert (found.best.value > share * truth) == (share < 1.0)


def test_a_search_that_is_stopped_has_bounds_on_both_sides() -> None:
    problem = LipschitzProblem(random_network(1, (3, 12, 8, 2)), Box(-1, 1, 3))
    truth = lipyomo.solve(problem, "bnb").lower
    left = iter(range(40))
    found = searched(problem, SOME, Clock(should_stop=lambda: next(left, None) is None))
    assert not found.complete
    assert found.best.value <= truth * (1 + 1e-9)
    assert found.upper >= truth * (1 - 1e-9)


@pytest.fixture
def halving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes are halved wherever they can be."""
    monkeypatch.setattr(contexts, "PARAMS", SOME)


PROBLEM = LipschitzProblem(random_network(2, (3, 12, 8, 2)), Box(-1, 1, 3))


@pytest.mark.usefixtures("halving")
def test_workers_find_the_same() -> None:
    alone = lipyomo.solve(PROBLEM, "bnb")
    helped = lipyomo.solve(PROBLEM, "bnb", workers=2, executor=InlineExecutor())
    assert alone.status is helped.status is Status.EXACT
    assert helped.lower == pytest.approx(alone.lower, rel=1e-7)


@pytest.mark.usefixtures("halving")
def test_a_stopped_search_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    path, left = tmp_path / "state", iter(range(100))
    first = lipyomo.solve(
        PROBLEM, "bnb", checkpoint=path, should_stop=lambda: next(left, None) is None
    )
    assert first.status is Status.INTERRUPTED
    second = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    whole = lipyomo.solve(PROBLEM, "bnb")
    assert second.status is Status.EXACT
    assert second.lower == pytest.approx(whole.lower, rel=1e-7)
    assert second.upper <= first.upper * (1 + 1e-12)


def test_boxes_are_for_few_inputs() -> None:
    network = random_network(0, (3, 6, 1))
    domain = Box(-1, 1, 3)
    found = JointContext.of(LipschitzProblem(network, domain))
    assert found is not None
    assert np.isinf(found.whole().bound)
    many = LipschitzProblem(random_network(0, (20, 6, 1)), Box(-1, 1, 20))
    assert JointContext.of(many) is None
