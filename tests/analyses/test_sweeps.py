"""Sweeps: every problem answered, in processes, on a cluster, and with failures in between."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import lipyomo
from interrupts import pressed
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.parallel import Carried
from networks import random_network


def problems(count: int = 3) -> list[lipyomo.LipschitzProblem]:
    network = random_network(1, (2, 4, 1))
    rng = np.random.default_rng(0)
    centers = rng.uniform(-1.0, 1.0, (count, 2))
    return [lipyomo.LipschitzProblem(network, lipyomo.ball(x, 0.3)) for x in centers]


def answers(rows: list[lipyomo.SweepRow]) -> list[float]:
    ordered = sorted(rows, key=lambda row: row.index)
    assert [row.index for row in ordered] == list(range(len(ordered)))
    assert all(row.error is None and row.result is not None for row in ordered)
    return [row.result.upper for row in ordered if row.result is not None]


def test_processes_agree_with_one_worker() -> None:
    alone = answers(list(lipyomo.sweep(problems(), workers=1)))
    together = answers(list(lipyomo.sweep(problems(), workers=2)))
    assert together == pytest.approx(alone, rel=1e-12)
    direct = [lipyomo.solve(problem).upper for problem in problems()]
    assert alone == pytest.approx(direct, rel=1e-6)


def test_one_failure_spoils_nothing() -> None:
    jobs = problems()
    jobs[1] = lipyomo.LipschitzProblem(jobs[1].network, lipyomo.AllSpace(2))
    rows = list(lipyomo.sweep(jobs, method="mip", workers=1))
    assert [row.error is None for row in rows] == [True, False, True]
    assert "bounded domain" in str(rows[1].error)


def test_no_workers_is_an_error() -> None:
    with pytest.raises(LipyomoError, match="at least 1"):
        list(lipyomo.sweep(problems(), workers=0))


def test_problems_and_results_travel() -> None:
    polytope = lipyomo.Polytope(np.array([[1.0, 1.0]]), [1.0], lower=0.0, upper=1.0)
    problem = lipyomo.LipschitzProblem(random_network(2, (2, 3, 1)), polytope)
    again = pickle.loads(pickle.dumps(problem))
    np.testing.assert_array_equal(again.domain.upper, polytope.upper)
    result = lipyomo.solve(problem)
    assert pickle.loads(pickle.dumps(result)).lower == result.lower


def test_on_a_cluster() -> None:
    distributed = pytest.importorskip("distributed", reason="extra [dask] is not installed")
    with distributed.Client(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as client:
        found = answers(list(lipyomo.sweep(problems(), executor=client.get_executor(pure=False))))
    assert found == pytest.approx(answers(list(lipyomo.sweep(problems(), workers=1))), rel=1e-12)


def test_a_scheduler_has_no_longer_to_answer_than_solves_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    distributed = pytest.importorskip("distributed", reason="extra [dask] is not installed")
    asked: list[str] = []

    def nobody(address: str, timeout: str) -> None:
        asked.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(distributed, "Client", nobody)
    for limit in (2.0, 60.0):
        with pytest.raises(LipyomoError, match="no dask scheduler answers"):
            list(lipyomo.sweep(problems(), dask="inproc://nobody", time_limit=limit))
    first, last = (float(timeout.removesuffix("s")) for timeout in asked)
    assert first <= 2.0 < last <= 10.0


class Counting:
    """Counts its calls, to tell whether it is the same object in the next one."""

    calls = 0

    def __call__(self, job: int) -> tuple[int, int]:
        self.calls += 1
        return job, self.calls


def test_what_a_worker_has_found_stays_for_its_next_job() -> None:
    counting = Counting()
    carried = Carried(counting)
    again = pickle.loads(pickle.dumps(carried))
    assert [carried(5), again(6), pickle.loads(pickle.dumps(again))(7)] == [(5, 1), (6, 2), (7, 3)]
    assert counting.calls == 0


def test_ctrl_c_ends_a_sweep_after_what_its_method_has() -> None:
    wide = lipyomo.LipschitzProblem(random_network(3, (12, 30, 30, 2)), lipyomo.Box(-3.0, 3.0, 12))
    rows = lipyomo.sweep([wide, wide], method="bnb", workers=1)  # minutes each
    with pressed(1.0):
        found = next(rows).result
    assert found is not None
    assert found.status is lipyomo.Status.INTERRUPTED
    assert found.lower <= found.upper
    with pytest.raises(KeyboardInterrupt):
        next(rows)


def test_views_are_short():
    network = lipyomo.Network.from_arrays([[[1.0, 2.0], [0.0, 1.0]], [[1.0, -1.0]]])
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1, 1, 2))
    rows = lipyomo.sweep([problem, problem], workers=1)
    assert repr(rows) == "Sweep(0 rows given so far; iterate over it, or call to_frame)"
    next(rows)
    assert "1 row given" in repr(rows)
    table = lipyomo.jacobian_ranges(problem)
    assert len(repr(table)) < 100
    assert "1 x 2 entries, 2 exact" in repr(table)
