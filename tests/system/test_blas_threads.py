"""Work on small matrices has one thread of linear algebra: several would wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import lipyomo
from lipyomo.proofs import write_proof
from networks import random_network


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
