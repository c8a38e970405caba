"""Pools of processes."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from lipyomo import executors
from lipyomo.executors import PIPE_BYTES, InlineExecutor, Workers, usable_cores
from lipyomo.semidefinite.choice import threads_for


@pytest.mark.skipif(sys.platform != "linux", reason="pipes keep their width elsewhere")
def test_messages_between_processes_fit_into_their_pipes() -> None:
    import fcntl

    with Workers[int, int](2) as workers:
        pool: Any = workers.executor
        for queue in (pool._call_queue, pool._result_queue):
            assert fcntl.fcntl(queue._writer.fileno(), fcntl.F_GETPIPE_SZ) >= PIPE_BYTES


def test_pools_whose_pipes_are_elsewhere_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool = InlineExecutor()
    monkeypatch.setattr(executors, "ProcessPoolExecutor", lambda *_, **__: pool)
    with Workers[int, int](2) as workers:
        assert workers.executor is pool
        assert workers.executor.submit(abs, -3).result() == 3


@pytest.mark.parametrize("tells", [True, False])
def test_cores_are_counted_on_every_system(monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    if tells:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2, 3}, raising=False)
    assert usable_cores() == (3 if tells else 5)
    with threads_for(10.0):
        blas = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert blas
    assert max(blas) <= 2
