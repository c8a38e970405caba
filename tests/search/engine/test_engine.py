"""The engine on a problem without networks: the maximum of a polynomial on a box."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from polynomials import Part, Polynomial, PolynomialSearch, Question, Task

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.system.memory import machine_memory
from lipyomo.search.engine.engine import Engine
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import NODES, Outcome, Pulse
from lipyomo.search.engine.queue import Queue

POLYNOMIAL = Polynomial(
    (-1.0, 2.0, -1.0, 2.0, 0.5, 0.1), ((4, 0), (2, 0), (0, 4), (0, 2), (1, 1), (1, 0))
)
QUESTION = Question(POLYNOMIAL, (-2.0, -2.0), (2.0, 2.5), gap=0.2)


@cache
def truth() -> float:
    """The largest value on a fine grid."""
    x, y = np.meshgrid(np.linspace(-2, 2, 801), np.linspace(-2, 2.5, 901))
    return float((-(x**4) + 2 * x**2 - y**4 + 2 * y**2 + 0.5 * x * y + 0.1 * x).max())


def covered(points: FloatArray, parts: list[Part]) -> bool:
    """Whether every point lies in one of the boxes."""
    low, high = np.array([part.low for part in parts]), np.array([part.high for part in parts])
    inside = (points[:, None] >= low) & (points[:, None] <= high)
    return bool(inside.all(axis=2).any(axis=1).all())


def test_the_interval_holds_the_maximum_and_is_as_narrow_as_asked() -> None:
    found = Engine(QUESTION.pipeline(), Clock()).run()
    assert found.complete
    assert found.best.point is not None
    assert found.best.value == POLYNOMIAL(found.best.point)
    assert found.best.value <= truth() + 1e-4
    assert truth() <= found.upper <= found.best.value + QUESTION.gap
    assert found.root > found.upper
    assert found.counters[NODES] == found.counters["values"] > 50


def test_equal_searches_are_equal() -> None:
    first, second = (Engine(QUESTION.pipeline(), Clock()).run() for _ in range(2))
    assert first.counters == second.counters
    assert (first.upper, first.best.value) == (second.upper, second.best.value)


def test_what_was_fathomed_covers_the_box_with_bounds_that_hold() -> None:
    found = Engine(replace(QUESTION, record=True).pipeline(), Clock()).run()
    points = np.random.default_rng(0).uniform(QUESTION.low, QUESTION.high, (500, 2))
    boxes = [part for part, _ in found.fathomed]
    assert covered(points, boxes)
    assert max(bound for _, bound in found.fathomed) == found.upper
    for part, bound in found.fathomed:
        assert bound >= POLYNOMIAL(0.5 * (part.low + part.high))


def test_an_outcome_covers_the_nodes_that_were_given_and_depends_on_the_task_alone() -> None:
    home = replace(QUESTION, record=True).pipeline()
    nodes = [home.root(Clock(), lambda upper=0.0, best=None: None).outcome.children[0]]
    for _ in range(5):
        task = home.plan(nodes, travels=True)
        outcomes = [
            recipe.pipeline().process(task, Clock(), lambda: None)
            for recipe in (home.recipe(), pickle.loads(pickle.dumps(home.recipe())))
        ]
        assert pickle.dumps(outcomes[0]) == pickle.dumps(outcomes[1])
        outcome = home.adopt(outcomes[0])
        parts = [*outcome.children, *(part for part, _ in outcome.fathomed)]
        for node in nodes:
            assert covered(np.random.default_rng(1).uniform(node.low, node.high, (50, 2)), parts)
        nodes = list(outcome.children)


@pytest.mark.parametrize("calls", [0, 1, 5, 40])
def test_a_stop_leaves_an_interval_that_holds(calls: int) -> None:
    asked = iter(range(10**9))
    found = Engine(QUESTION.pipeline(), Clock(should_stop=lambda: next(asked) >= calls)).run()
    assert not found.complete
    assert found.best.value <= truth() + 1e-4
    assert truth() <= found.upper <= found.root + 1e-6


def test_a_time_limit_is_kept() -> None:
    now = iter(range(10**9))
    found = Engine(QUESTION.pipeline(), Clock(300.0, now=lambda: float(next(now)))).run()
    assert not found.complete
    assert next(now) < 400  # looks at a clock that ticks with every look
    assert truth() <= found.upper < math.inf


def test_the_last_batch_before_a_time_limit_is_as_large_as_there_is_time_for() -> None:
    now = [0.0]

    class Slow(PolynomialSearch):
        """Takes a second a node."""

        def process(self, task: Task, clock: Clock, pulse: Pulse) -> Outcome[Part]:
            now[0] += len(task.parts)
            return super().process(task, clock, pulse)

    def look() -> float:
        now[0] += 1e-4
        return now[0]

    home = Slow(QUESTION)
    assert not Engine(home, Clock(30.5, now=look)).run().complete
    assert home.batches[-2:] != [QUESTION.batch] * 2
    assert max(home.batches) == QUESTION.batch
    assert sum(home.batches) == 30
    assert 30.5 <= now[0] < 31.0


def test_who_has_heard_enough_ends_the_search() -> None:
    heard = [0.0]

    def on_progress(point: FloatArray | None, upper: float, nodes: int, message: str) -> None:
        if point is not None:
            heard.append(POLYNOMIAL(point))

    clock = Clock(should_stop=lambda: heard[-1] >= 2.0)
    found = Engine(QUESTION.pipeline(), clock, on_progress=on_progress).run()
    assert not found.complete
    assert found.best.value == heard[-1] >= 2.0
    assert found.upper >= truth()
    assert found.counters[NODES] < Engine(QUESTION.pipeline(), Clock()).run().counters[NODES]


@pytest.mark.parametrize("start", [3.0, 2.7])
def test_a_cutoff_to_start_from_is_proved(start: float) -> None:
    found = Engine(replace(QUESTION, start=start, gap=0.0).pipeline(), Clock()).run()
    assert found.complete
    assert truth() <= found.upper <= start


def test_a_full_queue_changes_the_order_but_not_the_answer() -> None:
    params = Params(queue_share=1 << 60, least_queue=4)
    home = QUESTION.pipeline()
    found = Engine(home, Clock(), params=params).run()
    assert found.complete
    assert truth() <= found.upper <= found.best.value + QUESTION.gap
    assert max(home.batches) == QUESTION.batch  # what is left over is split together


def test_nodes_whose_proofs_fall_short_are_split_further() -> None:
    params = Params(first_improvement=150.0)  # good points come late, and overtake bounds
    found = Engine(replace(QUESTION, short=0.5, gap=0.1).pipeline(), Clock(), params=params).run()
    plain = Engine(replace(QUESTION, gap=0.1).pipeline(), Clock(), params=params).run()
    assert found.complete
    assert truth() <= found.upper <= found.best.value + 0.1
    assert found.counters[NODES] > plain.counters[NODES]


@pytest.mark.parametrize("calls", [10, 50])
def test_the_upper_end_of_a_stopped_search_is_proved(calls: int) -> None:
    asked = iter(range(10**9))
    home = replace(QUESTION, short=1.0).pipeline()
    found = Engine(home, Clock(should_stop=lambda: next(asked) >= calls)).run()
    asked = iter(range(10**9))
    clock = Clock(should_stop=lambda: next(asked) >= calls)
    assert found.upper > Engine(QUESTION.pipeline(), clock).run().upper + 1e-3


def test_a_stopped_search_proves_all_that_is_left() -> None:
    """The node with the largest bound may not be the one whose proof falls shortest."""
    asked, said = iter(range(10**9)), [""]
    home = replace(QUESTION, short=1.0).pipeline()
    clock = Clock(should_stop=lambda: next(asked) >= 50)
    found = Engine(home, clock, on_progress=lambda *on_progress: said.append(on_progress[-1])).run()
    assert not found.complete
    assert len(home.settled) == int(said[-1].split()[0]) > 10
    assert found.upper == max(home.settled)


def test_a_narrow_memory_keeps_few_nodes_and_cools_those_that_wait_longest() -> None:
    home = QUESTION.pipeline()
    (root,) = home.root(Clock(), lambda upper=0.0, best=None: None).outcome.children
    queue: Queue[Part] = Queue(Params(queue_share=1 << 60, least_queue=9))
    bounds = np.random.default_rng(0).permutation(30).tolist()
    queue.push([replace(root, bound=float(bound)) for bound in bounds])
    assert queue.ordered == 9
    assert len(queue) == 30
    assert queue.dives
    assert [node.bound for node in queue.take(100, -1.0)] == bounds[:8:-1]
    assert not queue.dives
    assert [node.bound for node in queue.take(100, -1.0)] == sorted(bounds[:9], reverse=True)
    queue.give_back()
    assert sorted(node.bound for node in queue.nodes) == sorted(bounds)

    warm: Queue[Part] = Queue(Params(queue_share=1 << 60, least_queue=9))
    assert root.warm_start is not None
    warm.push([replace(root, bound=float(bound)) for bound in range(9)])
    assert all(node.warm_start is not None for node in warm.nodes)
    taken = warm.take(2, -1.0)
    warm.enter(taken, taken)
    assert [node.warm_start is None for node in warm.nodes] == [False] * 5 + [True] * 4


def test_the_queue_takes_its_share_of_memory() -> None:
    home = QUESTION.pipeline()
    (root,) = home.root(Clock(), lambda upper=0.0, best=None: None).outcome.children
    queue: Queue[Part] = Queue(Params(queue_share=2, least_queue=1))
    large = replace(root, nbytes=machine_memory() // 100)
    queue.push([root, *[large] * 40])  # the size of the first one says nothing of the others
    assert 20 <= queue.ordered <= 26  # half of a half of what a hundred of them would take
    queue.take(100, -math.inf)  # what is on the stack
    queue.take(10, -math.inf)
    queue.push([large] * 40)
    assert 20 <= queue.ordered <= 26  # room that became free is taken again


def test_nodes_stay_in_the_books_until_what_became_of_them_is_entered() -> None:
    home = QUESTION.pipeline()
    (root,) = home.root(Clock(), lambda upper=0.0, best=None: None).outcome.children
    queue: Queue[Part] = Queue(Params())
    queue.push([replace(root, bound=float(bound)) for bound in (1, 5, 3, 4)])
    batch = queue.take(3, 3.5)
    assert [node.bound for node in batch] == [5.0, 4.0]
    assert queue.bound == 5.0
    assert len(queue.nodes) == 4
    queue.enter(batch, [replace(root, bound=2.0)])
    assert [node.bound for node in queue.nodes] == [3.0, 2.0, 1.0]
    assert [node.bound for node in queue.take_last(9, 2.5)] == []
    assert len(queue.take_last(9, 3.0)) == 3
    assert len(queue) == 0
    assert queue.bound == 3.0


def test_primal_heuristics_run_now_and_then() -> None:
    home = QUESTION.pipeline()
    params = Params(first_improvement=20.0, improvement=10.0)
    nodes = Engine(home, Clock(), params=params).run().counters[NODES]
    after_root, *later = home.improvements
    assert after_root == 1.0
    assert (nodes - 20) / 10 - 3 <= sum(later) <= (nodes - 20) / 10 + 1


def test_news_close_in_on_the_answer() -> None:
    heard: list[tuple[FloatArray | None, float, int, str]] = []
    whole: list[float] = []
    found = Engine(
        QUESTION.pipeline(),
        Clock(),
        on_progress=lambda *on_progress: heard.append(on_progress),
        report=whole.append,
    ).run()
    values = [POLYNOMIAL(point) for point, _, _, _ in heard if point is not None]
    uppers = [upper for _, upper, _, _ in heard]
    assert values == sorted(set(values))
    assert values[-1] == found.best.value
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[-1] == pytest.approx(found.upper)  # what is fathomed is not forgotten
    assert all(upper >= truth() for upper in uppers + whole)
    assert whole
