"""Pools of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lipyomo.base.errors import LipyomoError
from lipyomo.base.system import parallel
from lipyomo.base.system.parallel import Workers
from lipyomo.base.system.threads import blas_threads, usable_cores
from lipyomo.relaxations.semidefinite.choice import threads_for

pytestmark = pytest.mark.skipif(usable_cores() < 2, reason="one core has one process")


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


def test_far_more_processes_than_cores_are_refused() -> None:
    with pytest.raises(LipyomoError, match="too many processes"):
        Workers(10**6)
    assert Workers(10**6, jobs=2).count == 2
    assert Workers(10**6, executor=parallel.InlineExecutor()).count == 10**6


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Ctrl-C goes elsewhere")
def test_processes_that_help_do_not_hear_of_interrupts() -> None:
    with Workers[int, int](2, helping=True) as workers:
        workers.call("json")
        process = workers.executor.submit(os.getpid).result()
        os.kill(process, signal.SIGINT)
        assert workers.executor.submit(os.getpid).result() == process
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


LEAVES = """
import os
from lipyomo.base.system.parallel import Workers

if __name__ == "__main__":
    with Workers(2, helping=True) as workers:
        workers.call("json")
        os._exit(3)
"""


def test_nobody_complains_of_a_program_that_leaves_without_a_word(tmp_path: Path) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(LEAVES)
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60.0)
    assert (ran.returncode, ran.stderr) == (3, "")


def test_a_worker_that_dies_takes_no_other_job_with_it() -> None:
    with Workers[int, object](2) as workers:
        found = dict(workers.run(_exit_if_odd, [2, 3, 4, 6]))
    assert [found[0], found[2], found[3]] == [2, 4, 6]
    assert isinstance(found[1], LipyomoError)
    assert "twice" in str(found[1])


def _exit_if_odd(number: int) -> int:
    if number % 2:
        os._exit(7)
    return number


def test_what_a_worker_runs_into_is_said() -> None:
    with Workers[int, object](2) as workers:
        found = dict(workers.run(_divide, [1, 0]))
    assert found[0] == 1.0
    assert "ZeroDivisionError" in str(found[1])


def _divide(number: int) -> float:
    return 1.0 / number


def test_threads_that_solve_side_by_side_leave_the_linear_algebra_as_it_was() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    first, second = threading.Event(), threading.Event()

    def early() -> None:
        with blas_threads(1):
            first.set()
            second.wait(30.0)

    with threadpool_limits(limits=2, user_api="blas"):
        before = threads()
        thread = threading.Thread(target=early)
        thread.start()
        first.wait(30.0)
        with blas_threads(1):
            second.set()
            thread.join(30.0)
            assert set(threads()) == {1}
        assert threads() == before
