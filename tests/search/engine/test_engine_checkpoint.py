"""A search goes on from its checkpoint as if nothing had been, and refuses other people's."""

from __future__ import annotations

import math
from pathlib import Path
from threading import Event, Thread, current_thread, main_thread
from typing import Any

import numpy as np
import pytest
from polynomials import Part
from test_engine import QUESTION, truth

from lipyomo.base.clock import Clock
from lipyomo.base.system.outputs import OutputError
from lipyomo.base.system.parallel import InlineExecutor, Workers
from lipyomo.search.engine.checkpoint import Checkpoint, CheckpointError, Known
from lipyomo.search.engine.engine import Engine, Found
from lipyomo.search.engine.params import Params
from lipyomo.search.engine.protocol import NODES


def _answer(found: Found[Part]) -> tuple[float, float, dict[str, int]]:
    return found.best.value, found.upper, dict(found.counters)


def _resumed(path: Path, clock: Clock | None = None, **others: Any) -> Found[Part]:
    checkpoint = Checkpoint(path, {"problem": "polynomial"}, resume=True)
    assert checkpoint.before is not None
    return Engine(QUESTION.pipeline(), clock or Clock(), checkpoint=checkpoint, **others).run()


def _as_it_stands(path: Path) -> Found[Part]:
    """What a checkpoint holds, without any further node."""
    kept = path.read_bytes()
    found = _resumed(path, Clock(should_stop=lambda: True))
    path.write_bytes(kept)
    return found


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("calls", [20, 60, 100])
def test_a_resumed_search_equals_an_uninterrupted_one(
    tmp_path: Path, calls: int, workers: int | None
) -> None:
    def team() -> Workers[Any, Any] | None:
        return None if workers is None else Workers(workers, executor=InlineExecutor())

    path, asked = tmp_path / "state", iter(range(10**9))
    clock = Clock(should_stop=lambda: next(asked) >= calls)
    checkpoint = Checkpoint(path, {"problem": "polynomial"})
    first = Engine(QUESTION.pipeline(), clock, workers=team(), checkpoint=checkpoint).run()
    assert not first.complete
    assert _as_it_stands(path).counters == first.counters
    second = _resumed(path, workers=team())
    whole = Engine(QUESTION.pipeline(), Clock(), workers=team()).run()
    assert second.complete
    assert first.counters[NODES] < second.counters[NODES]
    if workers is None:
        assert _answer(second) == _answer(whole)
    else:  # tasks under way are made anew
        assert truth() <= second.upper <= second.best.value + QUESTION.gap


def test_what_workers_hold_is_in_the_checkpoint(tmp_path: Path) -> None:
    path, kept = tmp_path / "state", []

    def keep(*_: object) -> None:
        if path.exists():
            kept.append((tmp_path / f"{len(kept)}").write_bytes(path.read_bytes()))

    workers = Workers[Any, Any](2, executor=InlineExecutor())
    params = Params(checkpoint_seconds=0.0, checkpoint_share=math.inf)
    checkpoint = Checkpoint(path, {"problem": "polynomial"})
    Engine(
        QUESTION.pipeline(),
        Clock(),
        workers=workers,
        checkpoint=checkpoint,
        on_progress=keep,
        params=params,
    ).run()
    assert len(kept) > 10
    for number in range(0, len(kept), len(kept) // 5):
        found = _resumed(tmp_path / str(number))
        assert found.complete
        assert truth() <= found.upper <= found.best.value + QUESTION.gap


def test_a_finished_search_stays_finished(tmp_path: Path) -> None:
    path = tmp_path / "state"
    first = Engine(
        QUESTION.pipeline(), Clock(), checkpoint=Checkpoint(path, {"problem": "polynomial"})
    ).run()
    assert _answer(_as_it_stands(path)) == _answer(first)
    assert _answer(_resumed(path)) == _answer(first)


def test_what_is_known_without_a_search_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state"
    known = Known(np.array([1.0, 2.0]), 3.0)
    with Checkpoint(path, {"problem": "polynomial"}, known=lambda: known):
        pass
    again = Checkpoint(path, {"problem": "polynomial"}, resume=True)
    assert again.state is None
    assert again.before is not None
    assert again.before.best is not None
    assert again.before.best.tolist() == [1.0, 2.0]
    assert again.before.upper == 3.0
    assert Engine(QUESTION.pipeline(), Clock(), checkpoint=again).run().complete


def test_a_first_checkpoint_comes_early(tmp_path: Path) -> None:
    path = tmp_path / "state"
    known = Known(None, 3.0)
    with Checkpoint(
        path, {"problem": "polynomial"}, known=lambda: known, params=Params(checkpoint_seconds=0.0)
    ):
        clock = Clock(60.0)
        while not path.exists() and not clock.expired:
            pass
        assert path.exists()


def test_an_early_checkpoint_does_not_replace_the_state_of_a_search(tmp_path: Path) -> None:
    path, owner, asked, saved = tmp_path / "state", {"problem": "polynomial"}, Event(), Event()
    others: list[Thread] = []

    def known() -> Known:
        if (
            current_thread() is not main_thread()
        ):  # it is slow to on_progress, and the search is faster
            others.append(current_thread())
            asked.set()
            saved.wait(0.5)
        return Known(None, 3.0)

    params = Params(checkpoint_seconds=0.0)
    with Checkpoint(path, owner, known=known, params=params) as checkpoint:
        assert asked.wait(60.0)
        checkpoint.save({"nodes": np.arange(3)})
        saved.set()
        others[0].join(60.0)
    again = Checkpoint(path, owner, resume=True)
    assert again.state is not None
    assert again.state["nodes"].tolist() == [0, 1, 2]


def test_other_searches_and_broken_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    Engine(
        QUESTION.pipeline(), Clock(), checkpoint=Checkpoint(path, {"problem": "polynomial"})
    ).run()
    with pytest.raises(CheckpointError, match="already"):
        Checkpoint(path, {"problem": "polynomial"})
    with pytest.raises(CheckpointError, match="another problem"):
        Checkpoint(path, {"problem": "other"}, resume=True)
    content = path.read_bytes()
    for broken in (content[:200], content[:-1], content.replace(b"boxes", b"bodes")):
        path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="damaged"):
            Checkpoint(path, {"problem": "polynomial"}, resume=True)
    path.write_bytes(b"nonsense")
    with pytest.raises(OutputError, match="not a checkpoint"):
        Checkpoint(path, {"problem": "polynomial"}, resume=True)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_checkpoint_that_cannot_be_written_does_not_end_the_search() -> None:
    checkpoint = Checkpoint(Path("/dev/full"), {"problem": "polynomial"})
    assert Engine(QUESTION.pipeline(), Clock(), checkpoint=checkpoint).run().complete
    assert "cannot be written" in str(checkpoint.trouble)
