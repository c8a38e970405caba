"""Pools of processes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lipyomo.executors import PIPE_BYTES, Workers


@pytest.mark.skipif(sys.platform != "linux", reason="pipes keep their width elsewhere")
def test_messages_between_processes_fit_into_their_pipes() -> None:
    import fcntl

    with Workers[int, int](2) as workers:
        pool: Any = workers.executor
        for queue in (pool._call_queue, pool._result_queue):
            assert fcntl.fcntl(queue._writer.fileno(), fcntl.F_GETPIPE_SZ) >= PIPE_BYTES
