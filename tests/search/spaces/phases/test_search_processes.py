"""Several processes find the same answer, repeat themselves, and may die."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import pytest
from threadpoolctl import threadpool_info

import lipyomo
from lipyomo.base.system.parallel import Carried, InlineExecutor
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Status
from networks import random_network

PROBLEM = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")


@pytest.fixture(scope="module")
def constant() -> float:
    return lipyomo.solve(PROBLEM, "bnb").lower


def test_two_processes_find_the_same_constant_twice_in_the_same_way(constant: float) -> None:
    first, second = (lipyomo.solve(PROBLEM, "bnb", workers=2) for _ in range(2))
    assert first.status is Status.EXACT
    assert first.lower == pytest.approx(constant, rel=1e-9)
    assert first.upper >= constant * (1 - 1e-9)
    assert (first.lower, first.upper, first.nodes) == (second.lower, second.upper, second.nodes)


def test_an_answer_depends_on_the_tasks_and_not_on_who_does_them() -> None:
    inline = lipyomo.solve(PROBLEM, "bnb", workers=2, executor=InlineExecutor())
    with ProcessPoolExecutor(1) as pool:
        pooled = lipyomo.solve(PROBLEM, "bnb", workers=2, executor=pool)
    assert inline.status is Status.EXACT
    assert (inline.lower, inline.upper, inline.nodes) == (pooled.lower, pooled.upper, pooled.nodes)


def _blas_threads(job: object = None) -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


def test_a_worker_uses_one_core_and_leaves_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        before = pool.submit(_blas_threads).result()
        if before == 1:
            pytest.skip("this machine has one core")
        lipyomo.solve(PROBLEM, "bnb", workers=2, executor=pool)
        assert pool.submit(_blas_threads).result() == before
        assert pool.submit(Carried(_blas_threads), None).result() == 1


def test_a_dask_cluster_searches_subtrees(constant: float) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        executor = client.get_executor(pure=False)
        result = lipyomo.solve(PROBLEM, "bnb", workers=2, executor=executor)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(constant, rel=1e-9)
