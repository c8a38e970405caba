"""The tree covers the domain; the search stops, resumes nothing, and repeats itself exactly."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import lipyomo
from lipyomo.affine.system import NodeForm
from lipyomo.bnb import driver
from lipyomo.bnb.bounding import NodeBounder
from lipyomo.bnb.driver import Search
from lipyomo.bnb.node import Node
from lipyomo.bnb.tree import Tree
from lipyomo.domains import AllSpace, Box, Domain, ball
from lipyomo.executors import InlineExecutor
from lipyomo.phases import OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress, Result, Status
from lipyomo.run import Clock
from lipyomo.settings import Settings
from networks import mixed_network, random_network

HARD = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")
"""More than a hundred nodes."""


@cache
def answer() -> Result:
    """What the search says of it, undisturbed."""
    return lipyomo.solve(HARD, "bnb")


def coverage(problem: LipschitzProblem, samples: int = 400) -> None:
    """Every random point lies in a leaf whose bound covers its gradient norm."""
    problem = problem.reduced.problem
    search = Search(problem, Settings(time_limit=60), record=True)
    outcome = search.run()
    assert outcome.status is Status.EXACT
    leaves = search.leaves
    assert leaves
    kinked = search.tree.system.kinked
    phases = np.stack([node.phases for node, _ in leaves])
    low = np.stack([node.low for node, _ in leaves])
    high = np.stack([node.high for node, _ in leaves])
    bounds = np.array([bound for _, bound in leaves])
    points = problem.domain.sample(np.random.default_rng(5), samples)
    patterns = np.hstack(problem.network.pattern(points))
    for x, on in zip(points, patterns, strict=True):
        holds = ((phases == OPEN) | ((phases == RIGHT) == on) | ~kinked).all(axis=1)
        holds &= (x >= low).all(axis=1) & (x <= high).all(axis=1)
        assert holds.any()
        value = problem.value_at(x).value
        assert bounds[holds].max() >= value * (1 - 1e-9)
        assert value <= outcome.upper


@pytest.mark.parametrize(
    "domain",
    [Box(0, 1, 4), ball([0.2] * 4, 0.8, "l2"), ball([0.2] * 4, 0.8, "l1"), AllSpace(4)],
    ids=["box", "l2 ball", "l1 ball", "all space"],
)
@pytest.mark.parametrize("input_norm", ["linf", "l1", "l2"])
def test_leaves_cover_the_domain_when_units_are_split(domain: Domain, input_norm: str) -> None:
    network = mixed_network(31, (4, 8, 6, 2))
    coverage(LipschitzProblem(network, domain, input_norm, "linf"))


@pytest.mark.parametrize("output", ["l2", "l1", "cross"])
def test_leaves_cover_the_domain_when_boxes_are_split(output: str) -> None:
    coverage(LipschitzProblem(random_network(6, (2, 12, 10, 2)), Box(-1, 1, 2), "linf", output))


def test_equal_seeds_give_equal_searches() -> None:
    first, second = (lipyomo.solve(HARD, "bnb", seed=3) for _ in range(2))
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)
    assert first.nodes is not None
    assert first.nodes > 20


def test_a_time_limit_leaves_a_valid_interval() -> None:
    exact = answer().lower
    result = lipyomo.solve(HARD, "bnb", time_limit=0.01)
    assert result.status is Status.TIME_LIMIT
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)


def test_a_gap_ends_early_and_holds() -> None:
    exact = answer()
    result = lipyomo.solve(HARD, "bnb", gap=0.1)
    assert result.nodes is not None
    assert exact.nodes is not None
    assert result.nodes < exact.nodes
    assert result.gap <= 0.1 + 1e-6
    assert result.lower <= exact.lower * (1 + 1e-9) <= result.upper * (1 + 2e-9)


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_interrupt_keeps_the_interval(after: int) -> None:
    exact = answer().lower
    calls = iter(range(10**9))

    def stop() -> bool:
        if next(calls) >= after:
            raise KeyboardInterrupt
        return False

    result = lipyomo.solve(HARD, "bnb", should_stop=stop)
    assert result.status is Status.INTERRUPTED
    assert result.lower <= exact * (1 + 1e-9)
    assert result.upper >= exact * (1 - 1e-9)


def test_should_stop_is_asked() -> None:
    result = lipyomo.solve(HARD, "bnb", should_stop=lambda: True)
    assert result.status is Status.INTERRUPTED
    assert np.isfinite(result.upper)


def test_history_closes_in_on_the_answer() -> None:
    seen: list[Progress] = []
    result = lipyomo.solve(HARD, "bnb", progress=seen.append)
    lowers = [lower for _, lower, _ in result.history]
    times = [seconds for seconds, _, _ in result.history]
    assert seen
    assert lowers == sorted(lowers)
    assert times == sorted(times)
    assert all(upper >= result.lower * (1 - 1e-9) for _, _, upper in result.history)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_short_queue_changes_the_order_but_not_the_answer(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    exact, cold = answer(), []
    monkeypatch.setattr(driver, "QUEUE_SHARE", 1 << 60)
    monkeypatch.setattr(driver, "LEAST_QUEUE", 4)
    cool = Search._cool

    def watched(search: Search) -> None:
        cool(search)
        assert search._heap[0] == min(search._heap)
        cold.extend(node.ascent is None for _, _, node in search._heap)

    monkeypatch.setattr(Search, "_cool", watched)
    result = lipyomo.solve(HARD, "bnb", threads=threads, executor=InlineExecutor())
    assert any(cold)
    assert not all(cold)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(exact.lower, rel=1e-9)


def test_what_a_full_queue_has_left_is_split_together() -> None:
    search = Search(HARD.reduced.problem, Settings())
    node = search.tree.root().children[0]
    low = replace(node, target_bounds=0.0 * node.target_bounds)
    search._heap, search._stack = [(-node.bound, 0, node)], [low, *[node] * 20]
    taken = []
    for _ in range(2):
        search._take_batch()
        taken.append(len(search._taken))
    together = search.tree.together(node)
    assert taken == [together, 20 - together]
    assert search._stack == [low]
    assert search._heap


def test_the_queue_takes_its_share_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def capacity() -> int:
        search = Search(HARD.reduced.problem, Settings())
        search._set_capacity(search.tree.root().children)
        return search._capacity

    free = capacity()
    monkeypatch.setattr(driver, "memory_limit", lambda: driver.machine_memory() / 8)
    assert capacity() == pytest.approx(free / 2, rel=0.01)
    monkeypatch.setattr(driver, "machine_memory", lambda: 2**20)
    assert capacity() == driver.LEAST_QUEUE


def test_a_full_pool_of_points_does_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = answer()
    search = Search(HARD.reduced.problem, Settings())
    monkeypatch.setattr(search.tree.pool, "_capacity", 40)
    outcome = search.run()
    assert search.tree.pool.count == 40
    assert outcome.status is Status.EXACT
    assert outcome.lower == pytest.approx(exact.lower, rel=1e-9)


@pytest.mark.parametrize("seed", [0, 3])
def test_waiting_nodes_are_proved_at_their_bounds(seed: int) -> None:
    sizes = (8, 10, 10, 2)
    problem = LipschitzProblem(random_network(seed, sizes), Box(0, 1, 8), functional=[1.0, -1.0])
    tree = Tree(problem, np.random.default_rng(0))
    tree.climb(2000, Clock())
    nodes, excluded = tree.root().children, 0
    for _ in range(12):
        nodes = [child for e in tree.expand(nodes, tree.plan(nodes)) for child in e.children]
        for node in nodes:
            assert tree.proved_bound(node) <= node.bound * (1 + 1e-7)
            excluded += int((node.phases[node.units] != OPEN).sum())
    assert excluded


def test_nodes_whose_proofs_fall_short_are_split_further(monkeypatch: pytest.MonkeyPatch) -> None:
    short = []

    def no_more(bounder: NodeBounder, node: Node, form: NodeForm) -> float:
        short.append(node.bound)
        node.target_bounds = node.proved
        return node.bound

    # a good incumbent comes late: nodes wait that it overtakes
    monkeypatch.setattr(driver, "quick_budget", lambda problem, clock: (1, clock))
    monkeypatch.setattr(driver, "FIRST_CLIMB", 60.0)
    monkeypatch.setattr(NodeBounder, "prove", no_more)
    result = lipyomo.solve(HARD, "bnb")
    assert short
    assert result.status is Status.EXACT
    assert result.upper == pytest.approx(answer().lower, rel=1e-6)


def test_a_stop_is_heard_within_a_node() -> None:
    """It is there as soon as the node's first step ends, and the node comes back as it was."""
    begun: list[int] = []
    tree = Tree(HARD, np.random.default_rng(0))
    (node,) = tree.root().children
    tree.bounder.clock = Clock(should_stop=lambda: bool(begun))
    tree.attend = lambda: begun.append(1)
    (found,) = tree.expand([node], tree.plan([node]))
    assert found.children == [node]
    assert len(begun) == 1
    assert tree.bounder.clock.interrupted
