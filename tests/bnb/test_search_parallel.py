"""Several processes find the same answer, repeat themselves, and may die."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, wait
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import lipyomo
from lipyomo.bnb.driver import Search
from lipyomo.bnb.parallel import _DEATHS, Team
from lipyomo.domains import Box
from lipyomo.executors import InlineExecutor, Workers
from lipyomo.phases import OPEN, RIGHT
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result, Status
from lipyomo.settings import Settings
from networks import random_network

PROBLEM = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")


@pytest.fixture(scope="module")
def constant() -> float:
    return lipyomo.solve(PROBLEM, "bnb").lower


def _alone() -> Result:
    """What two processes find when the other one never comes up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Workers, "up", 0)
        return lipyomo.solve(PROBLEM, "bnb", threads=2)


def test_two_processes_find_the_same_constant_twice_in_the_same_way(constant: float) -> None:
    first, second = (lipyomo.solve(PROBLEM, "bnb", threads=2) for _ in range(2))
    assert first.status is Status.EXACT
    assert first.lower == pytest.approx(constant, rel=1e-9)
    assert first.upper >= constant * (1 - 1e-9)
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)


def test_an_answer_depends_on_the_tasks_and_not_on_who_does_them() -> None:
    inline = lipyomo.solve(PROBLEM, "bnb", threads=2, executor=InlineExecutor())
    with ProcessPoolExecutor(1) as pool:
        pooled = lipyomo.solve(PROBLEM, "bnb", threads=2, executor=pool)
    assert inline.status is Status.EXACT
    assert (inline.lower, inline.upper, inline.nodes) == (pooled.lower, pooled.upper, pooled.nodes)


def _blas_threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_a_worker_uses_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        before = pool.submit(_blas_threads).result()
        if before == 1:
            pytest.skip("this machine has one core")
        lipyomo.solve(PROBLEM, "bnb", threads=2, executor=pool)
        assert pool.submit(_blas_threads).result() == 1


def test_leaves_of_all_processes_cover_the_domain() -> None:
    search = Search(PROBLEM, Settings(threads=2, executor=InlineExecutor()), record=True)
    outcome = search.run()
    assert outcome.status is Status.EXACT
    assert search.leaves
    phases = np.stack([node.phases for node, _ in search.leaves])
    bounds = np.array([bound for _, bound in search.leaves])
    points = PROBLEM.domain.sample(np.random.default_rng(5), 300)
    patterns = np.hstack(PROBLEM.network.pattern(points))
    for x, on in zip(points, patterns, strict=True):
        holds = ((phases == OPEN) | ((phases == RIGHT) == on)).all(axis=1)
        assert holds.any()
        assert bounds[holds].max() >= PROBLEM.value_at(x).value * (1 - 1e-9)


def test_processes_take_part(monkeypatch: pytest.MonkeyPatch, constant: float) -> None:
    hand_over, given = Team._hand_over, set()

    def watched(team: Team) -> None:
        wait(team._workers._calls)
        hand_over(team)
        given.update(id(job.future) for job in team._jobs if job.future is not None)

    alone = _alone()
    monkeypatch.setattr(Team, "_hand_over", watched)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert given
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-9)
    assert result.nodes == alone.nodes


def test_reports_are_taken_in_while_this_process_works(monkeypatch: pytest.MonkeyPatch) -> None:
    hand_over, attend, taken = Team._hand_over, Search._attend, []

    def watched(team: Team) -> None:
        wait(team._workers._calls)
        hand_over(team)

    def patient(search: Search) -> None:
        team = search._team
        if team is not None and team._jobs[0].future is not None:
            wait([team._jobs[0].future])
        before = search._counters.nodes
        attend(search)
        taken.append(search._counters.nodes > before)

    alone = _alone()
    monkeypatch.setattr(Team, "_hand_over", watched)
    monkeypatch.setattr(Search, "_attend", patient)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert any(taken)
    assert (result.lower, result.upper, result.nodes) == (alone.lower, alone.upper, alone.nodes)


def test_a_dead_worker_does_not_cost_the_answer(
    monkeypatch: pytest.MonkeyPatch, constant: float
) -> None:
    hand_over, buried, bury = Team._hand_over, [], Team._bury

    def deadly(team: Team) -> None:
        if not buried:
            wait(team._workers._calls)
        hand_over(team)
        if not buried:
            crew: Any = team._workers.executor
            for process in [*crew._idle, *crew._busy]:
                process.kill()

    def watched(team: Team) -> None:
        buried.append(len(team.nodes))
        bury(team)

    monkeypatch.setattr(Team, "_hand_over", deadly)
    monkeypatch.setattr(Team, "_bury", watched)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert buried
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-9)


def test_processes_that_die_again_and_again_are_given_up(
    monkeypatch: pytest.MonkeyPatch, constant: float
) -> None:
    hand_over, bury, buried = Team._hand_over, Team._bury, []

    def deadly(team: Team) -> None:
        if team._deaths <= _DEATHS:
            wait(team._workers._calls)
        hand_over(team)
        if any(job.future is not None for job in team._jobs):
            crew: Any = team._workers.executor
            for process in [*crew._idle, *crew._busy]:
                process.kill()

    def watched(team: Team) -> None:
        bury(team)
        buried.append(team._deaths)

    monkeypatch.setattr(Team, "_hand_over", deadly)
    monkeypatch.setattr(Team, "_bury", watched)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2)
    assert buried == [1, 2, 3]
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-9)


def test_an_interrupt_while_waiting_keeps_the_interval(
    monkeypatch: pytest.MonkeyPatch, constant: float
) -> None:
    def interrupted(team: Team) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Team, "receive", interrupted)
    result = lipyomo.solve(PROBLEM, "bnb", threads=2, executor=InlineExecutor())
    assert result.status is Status.INTERRUPTED
    assert result.lower <= constant * (1 + 1e-9)
    assert result.upper >= constant * (1 - 1e-9)


def test_a_dask_cluster_searches_subtrees(constant: float) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        result = lipyomo.solve(PROBLEM, "bnb", threads=2, executor=executor)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-9)
