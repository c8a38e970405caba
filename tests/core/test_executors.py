"""Pools of processes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lipyomo import executors
from lipyomo.executors import PIPE_BYTES, InlineExecutor, Workers


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
