"""The line that shows lower, upper, gap and seconds while a method runs; always on stderr."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lipyomo.decimals import down, percent, up
from lipyomo.result import Progress

FIRST, PERIOD = 1.0, 5.0
"""Seconds before the first line and between two lines where stderr is no terminal."""


class Tracker:
    """The best interval that a running method has reported; its `update` is a progress callback."""

    def __init__(self) -> None:
        self.lower = 0.0
        self.upper = math.inf
        self.nodes = 0
        self.message = ""
        self._started = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Since the tracker was made."""
        return time.perf_counter() - self._started

    def update(self, progress: Progress) -> None:
        """Take a report; the interval only ever shrinks."""
        self.lower = max(self.lower, progress.lower)
        self.upper = min(self.upper, progress.upper)
        self.nodes = max(self.nodes, progress.nodes)
        self.message = progress.message

    def line(self) -> str:
        """Such as ``lower 1.25  upper 1.5  gap 16.7%  12 nodes  3.1 s``."""
        gap = (self.upper - self.lower) / self.upper if 0 < self.upper < math.inf else math.inf
        parts = [f"lower {down(self.lower)}", f"upper {up(self.upper)}"]
        if math.isfinite(gap):
            parts.append(f"gap {percent(max(gap, 0.0))}")
        if self.nodes:
            parts.append(f"{self.nodes} nodes")
        parts.append(f"{self.seconds:.1f} s")
        if self.message:
            parts.append(self.message)
        return "  ".join(parts)

    def __rich__(self) -> str:
        """Let rich draw the current line."""
        return self.line()


@contextmanager
def live_line(quiet: bool = False) -> Iterator[Tracker]:
    """Show a tracker while the body runs: one live line on terminals, a line now and then else."""
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


def _write_lines(tracker: Tracker, done: threading.Event) -> None:
    pause = FIRST
    while not done.wait(pause):
        print(tracker.line(), file=sys.stderr, flush=True)
        pause = PERIOD
