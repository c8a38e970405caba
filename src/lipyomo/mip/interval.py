"""The interval that a run narrows, with its history and its callbacks."""

from __future__ import annotations

import math
import time

from lipyomo.problem import LipschitzProblem
from lipyomo.result import Progress, Witness, close_enough
from lipyomo.settings import Settings


class Narrowing:
    """[lower, upper], the witness of its lower end, and who must be told.

    Parameters
    ----------
    problem : LipschitzProblem
        The original one.
    settings : Settings
    """

    def __init__(self, problem: LipschitzProblem, settings: Settings) -> None:
        self._settings = settings
        self._began = time.perf_counter()
        self.lower = 0.0
        self.upper = math.inf
        self.witness: Witness | None = None
        self.nodes = 0
        self.history: list[tuple[float, float, float]] = []
        self.interrupted = False
        self._shown = math.inf

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the start."""
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left; may be infinite."""
        return max(self._settings.time_limit - self.seconds, 0.0)

    def is_set(self) -> bool:
        """Whether the run has to end: the contract of a stop event."""
        stop = self._settings.should_stop
        if stop is not None and stop():
            self.interrupted = True
        return self.interrupted

    @property
    def out_of_time(self) -> bool:
        """Whether time is up or the caller asked to stop."""
        return self.is_set() or self.left <= 0.0

    @property
    def closed(self) -> bool:
        """Whether the asked-for gap is reached."""
        if close_enough(self.lower, self.upper):
            return True
        gap = self._settings.gap
        return gap > 0.0 and self.upper - self.lower <= gap * self.upper

    def attain(self, witness: Witness | None) -> bool:
        """Take a witness; True if it is the best so far."""
        if witness is None or (self.witness is not None and witness.value <= self.lower):
            return False
        self.witness, self.lower = witness, witness.value
        self.note()
        return True

    def bound(self, upper: float, nodes: int = 0) -> None:
        """Take an upper bound; it never rises, and never falls below what was attained."""
        new = max(min(self.upper, upper), self.lower)
        if new < self.upper:
            self.upper = new
            self.note(nodes)

    def live(self, upper: float, nodes: int) -> None:
        """Show a bound that a solver reports while it runs; it is not relied upon."""
        self._shown = min(self._shown, upper)
        self.note(nodes)

    @property
    def shown(self) -> float:
        """The upper end as shown while running: the smallest bound reported so far."""
        return max(min(self._shown, self.upper), self.lower)

    def closing_history(self) -> list[tuple[float, float, float]]:
        """The history, with the final interval as its last row.

        Live bounds below the final one were not confirmed and are lifted.
        """
        rows = [(at, low, max(high, self.upper)) for at, low, high in self.history]
        last = (self.seconds, self.lower, self.upper)
        return rows if rows and rows[-1][1:] == last[1:] else [*rows, last]

    def note(self, nodes: int = 0) -> None:
        """Enter the interval in the history and tell the caller."""
        row = (self.seconds, self.lower, self.shown)
        if not self.history or self.history[-1][1:] != row[1:]:
            self.history.append(row)
        if self._settings.progress is not None:
            total = self.nodes + nodes
            self._settings.progress(Progress(self.seconds, self.lower, self.shown, total))
