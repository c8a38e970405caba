"""A search goes on from its checkpoint as if nothing had been, and refuses other people's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polynomials import Part
from test_engine import RECIPE, truth

from lipyomo.executors import InlineExecutor, Workers
from lipyomo.run import Clock
from lipyomo.search.checkpoint import Checkpoint, CheckpointError
from lipyomo.search.engine import Engine, Found
from lipyomo.search.params import Params
from lipyomo.search.protocol import NODES


def _answer(found: Found[Part]) -> tuple[float, float, dict[str, int]]:
    return found.best.value, found.upper, dict(found.counters)


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("calls", [20, 60, 100])
def test_a_resumed_search_equals_an_uninterrupted_one(
    tmp_path: Path, calls: int, workers: int | None
) -> None:
    def team() -> Workers[Any, Any] | None:
        return None if workers is None else Workers(workers, executor=InlineExecutor())

    checkpoint, asked = Checkpoint(tmp_path / "state", "polynomial"), iter(range(10**9))
    clock = Clock(should_stop=lambda: next(asked) >= calls)
    first = Engine(RECIPE.pipeline(), clock, workers=team(), checkpoint=checkpoint).run()
    assert not first.complete
    second = Engine(RECIPE.pipeline(), Clock(), workers=team(), resumed=checkpoint.load()).run()
    whole = Engine(RECIPE.pipeline(), Clock(), workers=team()).run()
    assert second.complete
    assert first.counters[NODES] < second.counters[NODES]
    if workers is None:
        assert _answer(second) == _answer(whole)
    else:  # tasks under way are made anew
        assert truth() <= second.upper <= second.best.value + RECIPE.gap


def test_what_workers_hold_is_in_the_checkpoint(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state", "polynomial")
    kept: list[dict[str, Any]] = []

    def keep(*_: object) -> None:
        if checkpoint.path.exists():
            kept.append(checkpoint.load())

    workers = Workers[Any, Any](2, executor=InlineExecutor())
    params = Params(checkpoint_seconds=0.0, checkpoint_share=0.0)
    pipeline = RECIPE.pipeline()
    Engine(
        pipeline, Clock(), workers=workers, checkpoint=checkpoint, news=keep, params=params
    ).run()
    assert len(kept) > 10
    for arrays in kept[:: len(kept) // 5]:
        found = Engine(RECIPE.pipeline(), Clock(), resumed=arrays).run()
        assert found.complete
        assert truth() <= found.upper <= found.best.value + RECIPE.gap


def test_a_finished_search_stays_finished(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state", "polynomial")
    first = Engine(RECIPE.pipeline(), Clock(), checkpoint=checkpoint).run()
    again = Engine(RECIPE.pipeline(), Clock(), resumed=checkpoint.load()).run()
    assert _answer(again) == _answer(first)


def test_other_searches_and_broken_files_are_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "state", "polynomial")
    Engine(RECIPE.pipeline(), Clock(), checkpoint=checkpoint).run()
    with pytest.raises(CheckpointError, match="another network"):
        Checkpoint(checkpoint.path, "other").load()
    content = checkpoint.path.read_bytes()
    for broken in (b"nonsense", b"", content[: len(content) // 2]):
        checkpoint.path.write_bytes(broken)
        with pytest.raises(CheckpointError, match="no checkpoint"):
            checkpoint.load()
    np.savez(tmp_path / "other.npz", a=np.zeros(1))
    with pytest.raises(CheckpointError, match="no checkpoint"):
        Checkpoint(tmp_path / "other.npz", "polynomial").load()
