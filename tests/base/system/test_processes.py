"""Calls in processes of their own: their values, their errors, and their end."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lipyomo.base.decimals import up
from lipyomo.base.errors import SolverError
from lipyomo.base.system.processes import in_process
from lipyomo.solvers.registry import resolve_settings


def test_a_value_comes_back() -> None:
    assert in_process(math.hypot, 3.0, 4.0, stop=lambda: False) == 5.0
    assert in_process(up, 0.5, stop=lambda: False) == up(0.5)


def test_errors_of_lipyomo_come_back() -> None:
    with pytest.raises(Exception, match="no/such/file"):
        in_process(resolve_settings, "no/such/file.toml", stop=lambda: False)


def test_a_call_that_never_ends_is_ended() -> None:
    began = time.monotonic()
    with pytest.raises(SolverError, match="stopped"):
        in_process(time.sleep, 1000.0, stop=lambda: time.monotonic() - began > 1.0)
    assert time.monotonic() - began < 10.0


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(SolverError, match="died"):
        in_process(exit, 3, stop=lambda: False)


class Spoilt:
    """A value that cannot be made again in another process."""

    def __reduce__(self) -> tuple[object, ...]:
        return math.sqrt, (-1.0,)


def test_a_value_that_cannot_be_read_is_an_error_and_no_endless_wait() -> None:
    with pytest.raises(ValueError, match="math domain"):
        in_process(Spoilt, stop=lambda: False)


def test_a_process_says_what_it_ran_into() -> None:
    with pytest.raises(SolverError, match="TypeError"):
        in_process(math.hypot, "three", stop=lambda: False)
    with pytest.raises(SolverError, match="no_such_module"):
        in_process(Absent(), stop=lambda: False)


class Absent:
    """A function of a module that is not there."""

    def __reduce__(self) -> tuple[object, ...]:
        return __import__, ("no_such_module",)

    def __call__(self) -> None:
        """Never called."""


KILLED = """
import os, time
from lipyomo.base.system.processes import ChildProcess
from lipyomo.base.system.parallel import Workers

if __name__ == "__main__":
    child = ChildProcess(time.sleep, 1000.0)
    with Workers(workers=2) as workers:
        pids = {workers.executor.submit(os.getpid).result() for _ in range(4)}
        print(child._process._process.pid, *pids, flush=True)
        os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_processes_end_after_the_one_that_started_them_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    run = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    pids = run.stdout.readline().split()
    assert run.wait() == -9
    assert len(pids) >= 2
    until = time.monotonic() + 30.0
    while any(map(_lives, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(_lives, pids))
    run.stdout.close()


def _lives(pid: str) -> bool:
    """Whether a process is there, and not only its entry that nobody has asked for yet."""
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"
