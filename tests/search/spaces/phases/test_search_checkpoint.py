"""A search goes on from its checkpoint, and refuses other people's."""

from __future__ import annotations

import os
import stat
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import lipyomo
from lipyomo.base.errors import MethodError
from lipyomo.base.system.outputs import OutputError
from lipyomo.methods.bnb import owner_of
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Status
from lipyomo.search.engine.checkpoint import Checkpoint, CheckpointError
from networks import random_network

PROBLEM = LipschitzProblem(random_network(1, (8, 10, 10, 2)), Box(0, 1, 8), "linf", "cross")


def stopped_after(calls: int) -> Callable[[], bool]:
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


def test_a_finished_search_stays_finished(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = lipyomo.solve(PROBLEM, "bnb", checkpoint=path)
    again = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    assert (again.lower, again.upper, again.nodes) == (first.lower, first.upper, first.nodes)


def test_checkpoints_of_other_problems_and_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    lipyomo.solve(PROBLEM, "bnb", checkpoint=path)
    net, box = PROBLEM.network, PROBLEM.domain
    others = {
        "domain": LipschitzProblem(net, Box(0, 1.5, 8), "linf", "cross"),
        "network": LipschitzProblem(random_network(2, (8, 10, 10, 2)), box, "linf", "cross"),
        "input norm": LipschitzProblem(net, box, "l2", "cross"),
        "output norm": LipschitzProblem(net, box, "linf", functional=[1.0, 2.0]),
        "domain, another input norm": LipschitzProblem(net, Box(0, 2, 8), "l1", "cross"),
    }
    for what, other in others.items():
        with pytest.raises(CheckpointError, match=f"belongs to another {what}[.]"):
            lipyomo.solve(other, "bnb", checkpoint=path, resume=True)
    still = Box([0.5] + [0.0] * 7, [0.5] + [1.0] * 7)
    lipyomo.solve(LipschitzProblem(net, still), "bnb", checkpoint=path, overwrite=True)
    moved = LipschitzProblem(net, Box([0.25] + [0.0] * 7, [0.25] + [1.0] * 7))
    with pytest.raises(CheckpointError, match="an input that cannot move"):
        lipyomo.solve(moved, "bnb", checkpoint=path, resume=True)
    for data in (b"nonsense", np.random.default_rng(0).bytes(5000)):
        path.write_bytes(data)
        for way in ({"resume": True}, {"overwrite": True}, {}):
            with pytest.raises(OutputError, match="not a checkpoint") as caught:
                lipyomo.solve(PROBLEM, "bnb", checkpoint=path, **way)
            assert "pickle" not in str(caught.value)
        assert path.read_bytes() == data
    np.savez(path.with_suffix(".npz"), a=np.zeros(1))
    with pytest.raises(OutputError, match="not a checkpoint"):
        lipyomo.solve(PROBLEM, "bnb", checkpoint=path.with_suffix(".npz"), resume=True)


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    lipyomo.solve(PROBLEM, "bnb", checkpoint=path, should_stop=stopped_after(60))
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*rng.integers(100, len(whole), 40), len(whole) - 1]:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        for data in (bytes(flipped), whole[:place]):
            path.write_bytes(data)
            with pytest.raises(CheckpointError, match="damaged"):
                lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    path.write_bytes(whole)
    assert lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True).is_exact


def test_a_checkpoint_is_replaced_on_request_only(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.touch()  # as mktemp leaves it
    first = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, should_stop=stopped_after(60))
    kept = path.read_bytes()
    with pytest.raises(CheckpointError, match="overwrite=True") as caught:
        lipyomo.solve(PROBLEM, "bnb", checkpoint=path)
    assert "resume=True" in str(caught.value)
    assert path.read_bytes() == kept
    with pytest.raises(MethodError):
        lipyomo.Settings(checkpoint=path, resume=True, overwrite=True)
    anew = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, overwrite=True)
    assert anew.is_exact
    again = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, resume=True)
    assert (again.nodes, again.is_exact) == (anew.nodes, True)
    assert not first.is_exact


def test_what_is_known_before_the_root_is_kept(tmp_path: Path) -> None:
    problem = LipschitzProblem(random_network(0, (784, 200, 200, 3)), Box(0.4, 0.6, 784))
    path = tmp_path / "state"
    found: list[Progress] = []

    def stop() -> bool:
        return bool(found) and found[-1].lower > 0 and found[-1].upper < np.inf

    first = lipyomo.solve(
        problem, "bnb", checkpoint=path, progress=found.append, should_stop=stop, time_limit=60
    )
    assert first.status is Status.INTERRUPTED
    assert not first.nodes
    assert first.witness is not None
    second = lipyomo.solve(
        problem, "bnb", checkpoint=path, resume=True, should_stop=lambda: True, time_limit=60
    )
    assert second.lower >= first.lower * (1 - 1e-9)
    assert second.upper <= first.upper * (1 + 1e-9)


def test_the_first_checkpoint_does_not_wait_for_the_root(tmp_path: Path) -> None:
    path = tmp_path / "state"
    problem = LipschitzProblem(random_network(0, (784, 600, 600, 10)), Box(0.2, 0.8, 784))
    done: list[bytes] = []

    def stop() -> bool:
        if path.exists() and not done:
            done.append(path.read_bytes())
        return bool(done)

    result = lipyomo.solve(problem, "bnb", checkpoint=path, should_stop=stop, time_limit=300)
    assert result.status is Status.INTERRUPTED
    assert not result.nodes
    path.write_bytes(done[0])
    again = lipyomo.solve(
        problem, "bnb", checkpoint=path, resume=True, should_stop=lambda: True, time_limit=60
    )
    assert again.upper < np.inf
    assert again.upper >= result.lower


def test_sparse_layers_stay_sparse(tmp_path: Path) -> None:
    wide = 20_000
    weights = [sp.eye_array(wide, format="csr"), sp.csr_array(np.ones((1, wide)))]
    problem = LipschitzProblem(lipyomo.Network.from_arrays(weights), Box(0, 1, wide))
    tracemalloc.start()
    with Checkpoint(tmp_path / "state", owner_of(problem)):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "state").exists()
    assert peak < 100e6


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("calls", [60, 10**9])
def test_a_checkpoint_that_cannot_be_written_does_not_end_the_search(
    tmp_path: Path, calls: int
) -> None:
    path = tmp_path / "full"
    path.symlink_to("/dev/full")  # by a link, lest a defect harm the device itself
    result = lipyomo.solve(PROBLEM, "bnb", checkpoint=path, should_stop=stopped_after(calls))
    assert result.is_exact == (calls > 60)
    assert any("checkpoint cannot be written" in warning for warning in result.warnings)
    assert path.is_symlink()
    assert stat.S_ISCHR(os.stat(path).st_mode)


def test_an_unwritable_checkpoint_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no folder"):
        lipyomo.solve(PROBLEM, "bnb", checkpoint=tmp_path / "none" / "state")


def test_a_sweep_has_no_one_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(MethodError, match="one problem"):
        lipyomo.sweep([PROBLEM], workers=1, checkpoint=tmp_path / "state")
