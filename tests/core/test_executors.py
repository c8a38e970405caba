"""Pools of processes."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import wait
from typing import Any

import pytest
from threadpoolctl import threadpool_info

from lipyomo import executors
from lipyomo.executors import PIPE_BYTES, InlineExecutor, Workers, call_early, usable_cores
from lipyomo.semidefinite.choice import threads_for

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="one core has one process")


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


def test_processes_that_help_are_kept_for_the_next_who_asks() -> None:
    pids = []
    for _ in range(2):
        with Workers[int, int](2, helping=True) as workers:
            workers.call("json")
            wait(workers._calls)
            assert workers.up == workers.processes == 1
            pids.append(workers.executor.submit(os.getpid).result())
    assert pids[0] == pids[1] != os.getpid()


def test_processes_are_kept_after_no_error_and_start_before_they_are_needed() -> None:
    workers = Workers[int, int](2, helping=True)
    workers.call("json")
    first = workers.executor
    workers.__exit__(KeyboardInterrupt)
    call_early(2, "json")
    with Workers[int, int](2, helping=True) as workers:
        assert workers.executor is not first
        assert len(workers._calls) == 1
    call_early(None, "json")  # nobody else is needed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no system to fork on")
def test_a_fork_leaves_kept_processes_to_its_parent() -> None:
    call_early(2, "json")
    assert executors._spare
    child = os.fork()
    if child == 0:
        os._exit(len(executors._spare))
    assert os.waitpid(child, 0)[1] == 0
    assert executors._spare


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Ctrl-C goes elsewhere")
def test_processes_that_help_do_not_hear_of_interrupts() -> None:
    with Workers[int, int](2, helping=True) as workers:
        workers.call("json")
        process = workers.executor.submit(os.getpid).result()
        os.kill(process, signal.SIGINT)
        assert workers.executor.submit(os.getpid).result() == process
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
