"""Work on small matrices has one thread of linear algebra: several would wait for each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import blas_work
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import lipyomo
from lipyomo.base.arguments import warn_caller
from lipyomo.base.system.threads import blas_threads, usable_cores, with_one_blas_thread
from lipyomo.proofs import write_proof
from networks import random_network

TOLD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def _problem() -> lipyomo.LipschitzProblem:
    return lipyomo.LipschitzProblem(random_network(3, (2, 6, 6, 1)), lipyomo.Box(-1.0, 1.0, 2))


def _proof(folder: Path, look: Callable[[Any], None]) -> None:
    problem = _problem()
    write_proof(folder / "p", problem, lipyomo.solve(problem), progress=look)


def _solve(folder: Path, look: Callable[[Any], None]) -> None:
    lipyomo.solve(_problem(), progress=look)


def _map(folder: Path, look: Callable[[Any], None]) -> None:
    lipyomo.map_cells(_problem(), (8, 8), progress=look)


def _refined(folder: Path, look: Callable[[Any], None]) -> None:
    lipyomo.refine_cells(_problem(), (8, 8), 0.1, progress=look)


def _threads() -> int:
    return max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")


@pytest.mark.parametrize("work", [_proof, _solve, _map, _refined])
def test_one_thread_meanwhile_and_as_many_as_before_after_it(
    tmp_path: Path, work: Callable[[Path, Callable[[Any], None]], None]
) -> None:
    seen = []
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        work(tmp_path, lambda _: seen.append(_threads()))
        assert _threads() == before
    assert set(seen) == {1}


@pytest.fixture(scope="module")
def untold(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, ...]]:
    """What each entry point takes in a process that nobody has told how many threads to use."""
    if usable_cores() < 2:
        pytest.skip("one core has one thread")
    program, folder = blas_work.__file__, tmp_path_factory.mktemp("work")
    ran = subprocess.run(
        [sys.executable, program, str(folder)],
        env={name: value for name, value in os.environ.items() if name not in TOLD},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, tuple[float, ...]] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", blas_work.ENTRIES)
def test_entry_points_have_one_thread_where_nobody_has_said_so(
    untold: dict[str, tuple[float, ...]], name: str
) -> None:
    cpu, wall, several, after = untold[name]
    assert cpu <= 1.2 * wall + 0.3
    assert after > 1
    if name != "compare":  # whose processes have been told when they started
        assert several * wall <= 0.1 * wall + 0.2  # imports before the work count as well


def test_what_is_loaded_within_a_block_has_one_thread() -> None:
    """SciPy has a linear algebra of its own, which is loaded when it is first needed."""
    script = """
import numpy, sys
from lipyomo.base.system.threads import blas_threads
from threadpoolctl import threadpool_info
with blas_threads(1):
    import scipy.linalg
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    print({pool["num_threads"] for pool in pools} == {1})
"""
    environment = {name: value for name, value in os.environ.items() if name not in TOLD}
    ran = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert ran.stdout.strip() == "True", ran.stderr


def test_a_block_within_a_block_decides_and_leaves_what_there_was() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = _threads()
        with blas_threads(1):
            assert _threads() == 1
            with blas_threads(2):
                assert _threads() == min(2, before)
            assert _threads() == 1
        assert _threads() == before


def test_libraries_that_are_known_are_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """To look for them takes milliseconds, and blocks are entered for every job."""
    nothing = with_one_blas_thread(lambda: None)
    nothing()
    monkeypatch.setattr("threadpoolctl.ThreadpoolController", None)
    nothing()


def test_warnings_are_about_the_line_that_led_to_them() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warn_caller("what for", UserWarning)
    assert [warned.filename for warned in found] == [__file__]
