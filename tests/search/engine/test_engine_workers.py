"""Workers of all kinds give the same search, and may die."""

from __future__ import annotations

import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from polynomials import Part, Polynomial, Question
from test_engine import QUESTION, covered, truth

from lipyomo.base.clock import Clock
from lipyomo.base.system.parallel import InlineExecutor, Workers
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.protocol import NODES


def _started(workers: int) -> Workers[Any, Any]:
    """Processes that are there already when the search begins."""
    team = Workers[Any, Any](workers, helping=True)
    team.call("polynomials")
    while team.up < team.processes:
        time.sleep(0.01)
    return team


def _answer(found: Found[Part]) -> tuple[float, float, int, bool]:
    return found.best.value, found.upper, found.counters[NODES], found.complete


def _search(question: Question = QUESTION, workers: Workers[Any, Any] | None = None) -> Found[Part]:
    return Engine(question.pipeline(), Clock(), workers=workers).run()


def test_an_answer_depends_on_the_tasks_and_not_on_who_does_them() -> None:
    inline = _answer(_search(workers=Workers(2, executor=InlineExecutor())))
    with ProcessPoolExecutor(1) as pool:
        assert _answer(_search(workers=Workers(2, executor=pool))) == inline
        assert _answer(_search(workers=Workers(2, executor=pool))) == inline
    value, upper, nodes, complete = inline
    assert complete
    assert truth() <= upper <= value + QUESTION.gap
    assert nodes > 50


def test_processes_that_are_there_change_nothing_against_ones_that_come_late() -> None:
    late = _search(workers=Workers(2, helping=True))
    there = _search(workers=_started(2))
    assert there.counters["remote"] > 0
    assert _answer(there) == _answer(late)


def test_processes_that_start_load_what_the_pipeline_needs() -> None:
    heard = []

    class Told(Workers[Any, Any]):
        def call(self, module: str) -> None:
            heard.append(module)

    _search(workers=Told(2, helping=True))
    assert heard == ["polynomials"]


def test_parts_of_all_workers_cover_the_box() -> None:
    found = _search(replace(QUESTION, record=True), Workers(3, executor=InlineExecutor()))
    points = np.random.default_rng(2).uniform(QUESTION.low, QUESTION.high, (300, 2))
    assert covered(points, [part for part, _ in found.fathomed])
    assert max(bound for _, bound in found.fathomed) == found.upper


def test_workers_that_die_again_and_again_do_not_cost_the_answer() -> None:
    alone = _answer(_search(workers=Workers(2, helping=True)))
    deadly = _search(replace(QUESTION, deadly=True), _started(2))
    assert _answer(deadly) == alone


def test_a_pool_that_breaks_leaves_its_tasks_to_this_process() -> None:
    with ProcessPoolExecutor(1) as pool:
        broken = _search(replace(QUESTION, deadly=True), Workers(2, executor=pool))
    whole = _search(workers=Workers(2, executor=InlineExecutor()))
    assert _answer(broken) == _answer(whole)


@pytest.mark.parametrize("calls", [3, 30])
def test_a_stop_is_heard(calls: int) -> None:
    asked = iter(range(10**9))
    clock = Clock(should_stop=lambda: next(asked) >= calls)
    workers = Workers[Any, Any](2, executor=InlineExecutor())
    found = Engine(QUESTION.pipeline(), clock, workers=workers).run()
    assert not found.complete
    assert found.best.value <= truth() + 1e-4
    assert truth() <= found.upper


def test_one_dimension_and_a_dask_cluster() -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    question = Question(Polynomial((1.0, -1.0), ((1,), (2,))), (-1.0,), (2.0,), gap=1e-3)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        found = _search(question, Workers(2, executor=executor))
    assert found.best.value <= 0.25 <= found.upper <= found.best.value + 1e-3
