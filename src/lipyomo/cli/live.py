"""The line on stderr that shows lower, upper, gap and seconds while a method runs."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lipyomo.base.system.processes import PAUSE
from lipyomo.cli.interrupt import Interruption
from lipyomo.cli.streams import answer_only
from lipyomo.problems.result import Progress, ProgressCallback

if TYPE_CHECKING:
    from lipyomo.analyses.maps import MapSettings
    from lipyomo.problems.settings import Settings

Watched = TypeVar("Watched", "Settings", "MapSettings")


class Tracker:
    """The best interval that a running method has reported; its `update` is a progress callback."""

    def __init__(self) -> None:
        self.best = Progress(0.0, 0.0, math.inf)
        self._started = time.perf_counter()

    def update(self, progress: Progress) -> None:
        """Take a progress report; the interval of a question only shrinks."""
        known = self.best if progress.question == self.best.question else progress
        self.best = replace(
            progress,
            lower=max(known.lower, progress.lower),
            upper=min(known.upper, progress.upper),
            nodes=max(known.nodes, progress.nodes),
        )

    def about(self, question: str) -> ProgressCallback:
        """Return a progress callback for one of several questions, which may have parts."""

        def on_progress(progress: Progress) -> None:
            parts = filter(None, (question, progress.question))
            self.update(replace(progress, question=", ".join(parts)))

        return on_progress

    @property
    def now(self) -> Progress:
        """The best interval, with the seconds since the tracker was made."""
        return replace(self.best, seconds=time.perf_counter() - self._started)

    def __rich__(self) -> str:
        """Return the current line, for rich."""
        return str(self.now)


@contextmanager
def live_line(quiet: bool = False) -> Iterator[Tracker]:
    """Show a tracker while the body runs: a live line on terminals, else periodic lines."""
    tracker = Tracker()
    if quiet:
        yield tracker
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True, highlight=False, markup=False)
        with Live(tracker, console=console, refresh_per_second=8, transient=True):
            yield tracker
    else:
        done = threading.Event()
        writer = threading.Thread(target=_write_lines, args=(tracker, done), daemon=True)
        writer.start()
        try:
            yield tracker
        finally:
            done.set()
            writer.join(timeout=1.0)


@contextmanager
def watched(settings: Watched, quiet: bool) -> Iterator[Watched]:
    """Return settings for a search with live progress that Ctrl-C ends; stdout is held back."""
    with answer_only(), Interruption() as interruption, live_line(quiet) as tracker:
        yield replace(settings, progress=tracker.update, should_stop=interruption.requested)


def _write_lines(tracker: Tracker, done: threading.Event) -> None:
    while not done.wait(PAUSE):
        print(tracker.now, file=sys.stderr, flush=True)
