"""Clocks with time limits, and predictions whether a step ends in time.

The time of dense linear algebra is predicted by its size.  `seconds_of` converts operations into
seconds of one idle reference core, at a constant rate: calls of milliseconds take up to four times
as long, those of many seconds half of it (Newton steps with 30 to 1,700 unstable units).

`fits` compares predictions with the time left.  Unless that is ample, it times a factorisation and
a product first, to allow for a machine that is slower than the reference core, or busy.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from lipyomo.base.arrays import DENSE, Matrix
from lipyomo.base.numerics.params import PARAMS


def seconds_of(operations: float) -> float:
    """Predict the seconds of so many operations on one idle reference core."""
    return operations / PARAMS.rate


def dense_entries(matrix: Matrix) -> float:
    """Return the number of entries of a dense matrix that costs as much as this one."""
    return float(matrix.size) / (1.0 if isinstance(matrix, np.ndarray) else DENSE)


def model_terms(weights: Iterable[Matrix]) -> float:
    """Estimate the number of terms in the optimisation model of a network."""
    return 2.0 * sum(weight.size for weight in weights)


def model_seconds(weights: Iterable[Matrix]) -> float:
    """Predict the seconds of building a network's model and passing it to a solver."""
    imports = 0.0 if "pyomo.environ" in sys.modules else PARAMS.pyomo
    return model_terms(weights) / PARAMS.terms + imports


def pace() -> float:
    """Measure the wall-clock seconds of a predicted second, at least 0.5, in a few milliseconds."""
    return _trial(int(time.monotonic() / PARAMS.age))


@lru_cache(maxsize=1)
def _trial(_: int) -> float:
    """Run the measurement of `pace`, once per period."""
    n = PARAMS.order
    matrix = np.random.default_rng(0).standard_normal((n, n))
    began = time.perf_counter()
    np.linalg.cholesky(matrix @ matrix.T + n * np.eye(n))
    return max((time.perf_counter() - began) / seconds_of(7.0 * n**3 / 3.0), 0.5)


def fits(seconds: float, left: float) -> bool:
    """Return whether a step of so many predicted seconds ends within the time left.

    Parameters
    ----------
    seconds : float
        Of one idle reference core, as predicted by `seconds_of`.
    left : float
        Wall-clock seconds; may be infinite.
    """
    if left <= 0:
        return False
    return seconds * PARAMS.slowest <= left or seconds * pace() <= left


PAUSE_SHARE = 0.01
"""Least time between two checkpoints, or two rows of a history, as a share of the elapsed time; and
the largest share of time spent on writing checkpoints."""

PART = 0.5
"""Share of the time left for a step that is followed by others."""


class Clock:
    """A clock with a time limit and a stop request.

    Parameters
    ----------
    limit : float, optional
        Seconds from `began` on.
    should_stop : callable, optional
        Polled; once it has returned True, the clock stays interrupted.
    began : float, optional
        Value of `now` at the start of the clock; the current one by default.
    now : callable, optional
        Returns the time in seconds.
    around : Clock, optional
        The enclosing clock, which is curtailed together with this one.

    Attributes
    ----------
    curtailed : bool
        Whether a step was skipped because it would not have ended in time.
    stopped : bool
        Whether `stop` was called, as for Ctrl-C; independent of `should_stop`.
    """

    def __init__(
        self,
        limit: float = math.inf,
        should_stop: Callable[[], bool] | None = None,
        began: float | None = None,
        now: Callable[[], float] = time.monotonic,
        around: Clock | None = None,
    ) -> None:
        self._now = now
        self._began = now() if began is None else began
        self._limit = limit
        self._should_stop = should_stop
        self._stopped = False
        self._around = around
        self.curtailed = self.stopped = False

    @property
    def seconds(self) -> float:
        """Seconds since the start, wall-clock by default."""
        return self._now() - self._began

    @property
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit, 0 once interrupted."""
        return 0.0 if self.interrupted else max(self._limit - self.seconds, 0.0)

    @property
    def interrupted(self) -> bool:
        """Whether a stop was requested."""
        if not self._stopped and self._should_stop is not None and self._should_stop():
            self._stopped = True
        return self._stopped

    @property
    def expired(self) -> bool:
        """Whether the time limit is reached or a stop was requested."""
        return self._now() - self._began >= self._limit or self.interrupted

    def fits(self, seconds: float, grace: float = 0.0) -> bool:
        """Return whether a step ends in time that takes so many seconds of an idle reference core.

        If it does not, nor within `grace` seconds more, the step is skipped: the clock is marked as
        `curtailed`.
        """
        if fits(seconds, self.left + grace):
            return True
        self.curtail()
        return False

    def part(self) -> Clock:
        """Return a clock for a step that is followed by others."""
        return self.within(PART * self.left)

    def steps(self) -> Callable[[], bool]:
        """Return a function, to be called between iterations, that tells whether to stop.

        It returns True if an iteration as long as the longest so far would not end in time; then
        the clock is marked as `curtailed`.
        """
        longest, last = 0.0, self.seconds

        def late() -> bool:
            nonlocal longest, last
            now = self.seconds
            longest, last = max(longest, now - last), now
            if longest > self.left:
                self.curtail()
            return longest > self.left or self.expired

        return late

    def curtail(self) -> None:
        """Record that a step was skipped for lack of time."""
        self.curtailed = True
        if self._around is not None:
            self._around.curtail()

    def stop(self) -> None:
        """Interrupt everything that runs on this clock."""
        self._stopped = self.stopped = True

    def is_set(self) -> bool:
        """Return whether a stop was requested (the interface of `threading.Event`)."""
        return self.interrupted

    def working(self) -> Clock:
        """Return a clock of this thread's CPU seconds from now on, which ends with this clock.

        Methods are compared by CPU time because wall-clock time is random on a busy machine.
        """
        return Clock(should_stop=lambda: self.expired, now=time.thread_time, around=self)

    def within(self, seconds: float) -> Clock:
        """Return a clock that starts now and ends with this one, or after `seconds` if sooner."""
        limit = min(max(seconds, 0.0), self.left)
        return Clock(limit, lambda: self.interrupted, now=self._now, around=self)
