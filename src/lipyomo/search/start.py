"""The engine as settings ask for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lipyomo.base.clock import Clock
from lipyomo.base.kept import Kept
from lipyomo.base.system.parallel import Workers
from lipyomo.problems.settings import Settings
from lipyomo.search.engine.checkpoint import Checkpoint, SearchStates
from lipyomo.search.engine.engine import Engine, Found, OnProgress
from lipyomo.search.engine.protocol import N, Pipeline, T


def searched(
    pipeline: Pipeline[N, T],
    settings: Settings,
    clock: Clock,
    on_progress: OnProgress | None = None,
    checkpoint: Kept | None = None,
    report: Callable[[float], object] | None = None,
) -> Found[N]:
    """What the search of a pipeline finds.

    Parameters
    ----------
    pipeline : Pipeline
        Knows in the end the statistics on the way.
    settings : Settings
        Uses workers, executor and dask.
    clock : Clock
    on_progress : callable, optional
        Hears of better points and bounds.
    checkpoint : Kept, optional
        Where to keep the state, and from where to go on.
    report : callable, optional
        Called with proved bounds of the whole.
    """
    engine = Engine(
        pipeline,
        clock,
        workers=_asked_for(settings, clock),
        checkpoint=checkpoint,
        on_progress=on_progress,
        report=report,
    )
    return engine.run()


@contextmanager
def checkpoint_of(
    settings: Settings, owner: Callable[[], Mapping[str, str]]
) -> Iterator[SearchStates]:
    """The checkpoint of several searches that settings ask for, or their part of one.

    Parameters
    ----------
    settings : Settings
    owner : callable
        Digests of what is searched, as of `Checkpoint`.

    Raises
    ------
    CheckpointError, OutputError
        If the file cannot be used.
    """
    place = settings.checkpoint
    if not isinstance(place, Path):
        yield SearchStates(place)
        return
    with Checkpoint(place, owner(), settings.resume, settings.overwrite) as file:
        yield SearchStates(file)


def keeping(settings: Settings, kept: Kept | None) -> Settings:
    """Settings of one search of several, which keeps its state there and begins where it says."""
    return replace(settings, checkpoint=kept, resume=False, overwrite=False)


def _asked_for(settings: Settings, clock: Clock) -> Workers[Any, Any] | None:
    """Who helps; None if nobody does."""
    shared = settings.executor is not None or settings.dask is not None
    if not shared and (settings.workers or 1) == 1:
        return None
    asked = settings.workers, settings.executor, settings.dask
    return Workers(*asked, helping=True, time_limit=clock.left)
