"""A search goes on from its checkpoint, and refuses other people's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lipyomo
from lipyomo.bnb import driver
from lipyomo.bnb.checkpoint import CheckpointError
from lipyomo.domains import Box
from lipyomo.executors import InlineExecutor
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Status
from networks import random_network

PROBLEM = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")


def stopped_after(calls: int) -> object:
    left = iter(range(10**9))
    return lambda: next(left) >= calls


@pytest.mark.parametrize("calls", [60, 90])
def test_a_stopped_search_goes_on(tmp_path: Path, calls: int) -> None:
    path = tmp_path / "state"
    stop = stopped_after(calls)
    first = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, should_stop=stop)
    assert first.status is Status.INTERRUPTED
    second = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    whole = lipyomo.solve(PROBLEM, "bnb")
    assert second.status is Status.EXACT
    assert second.lower == pytest.approx(whole.lower, rel=1e-9)
    assert first.nodes is not None
    assert second.nodes is not None
    assert second.nodes >= first.nodes
    assert second.upper <= first.upper * (1 + 1e-12)


def test_nodes_that_workers_hold_are_in_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.0)
    path, kept = tmp_path / "state", []
    problem = LipschitzProblem(random_network(1, (10, 14, 14, 2)), Box(0, 1, 10), "linf", "cross")
    whole = lipyomo.solve(problem, "bnb")
    plain = driver.save

    def watched(*arguments: Any) -> None:
        plain(*arguments)
        kept.append((tmp_path / f"{len(kept)}").write_bytes(path.read_bytes()))

    monkeypatch.setattr(driver, "save", watched)
    lipyomo.solve(problem, "bnb", threads=2, executor=InlineExecutor(), checkpoint=path)
    monkeypatch.setattr(driver, "save", plain)
    assert len(kept) > 3
    for number in np.linspace(0, len(kept) - 1, 4, dtype=int):
        result = lipyomo.solve(problem, "bnb", checkpoint=tmp_path / str(number), resume=True)
        assert result.status is Status.EXACT
        assert result.lower == pytest.approx(whole.lower, rel=1e-9)
        assert result.upper >= whole.lower * (1 - 1e-9)


def test_a_finished_search_stays_finished(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = lipyomo.solve(PROBLEM, "bnb", checkpoint=path)
    again = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    assert (again.lower, again.upper, again.nodes) == (first.lower, first.upper, first.nodes)


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "state"
    program = (
        "import sys; sys.path.insert(0, sys.argv[2])\n"
        "import pathlib, lipyomo\n"
        "from lipyomo.bnb import driver\n"
        "from test_search_checkpoint import PROBLEM\n"
        "driver.CHECKPOINT_SECONDS = 0.0\n"
        "lipyomo.solve(PROBLEM, 'bnb', checkpoint=pathlib.Path(sys.argv[1]))\n"
    )
    here = Path(__file__).parent
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(here.parent), *sys.path])}
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(here)], env=environment
    ) as process:
        for _ in range(6000):
            if path.exists() or process.poll() is not None:
                break
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(signal.SIGKILL)
    assert path.exists()
    result = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    assert result.status is Status.EXACT
    assert result.lower == pytest.approx(lipyomo.solve(PROBLEM, "bnb").lower, rel=1e-9)


def test_checkpoints_of_other_problems_and_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    lipyomo.solve(PROBLEM, "bnb", checkpoint=path)
    other = LipschitzProblem(PROBLEM.network, Box(0, 1.5, 8), "linf", "cross")
    with pytest.raises(CheckpointError, match="another network"):
        lipyomo.solve(other, "bnb", checkpoint=path, resume=True)
    path.write_bytes(b"nonsense")
    with pytest.raises(CheckpointError, match="no checkpoint"):
        lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    np.savez(path.with_suffix(".npz"), a=np.zeros(1))
    with pytest.raises(CheckpointError):
        lipyomo.solve(PROBLEM, "bnb", checkpoint=path.with_suffix(".npz"), resume=True)


def test_an_unwritable_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be written"):
        lipyomo.solve(PROBLEM, "bnb", checkpoint=tmp_path / "none" / "state")
