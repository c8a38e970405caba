"""The clock that every step is given: how much time is left, what fits, whether it has to end.

How long dense linear algebra takes is known by its size, and on the machine of the moment.
`seconds_of` turns operations into seconds of one quiet core, at one rate: calls of milliseconds
take up to four times as long, those of many seconds half of it (Newton steps with 30 to 1,700 open
units).

`fits` compares with time that is left.  Unless that is ample, it first times a factorisation and a
product here and now, which tells a slow or busy machine from that core.
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
    """About how long so many operations take on one quiet core."""
    return operations / PARAMS.rate


def dense_entries(matrix: Matrix) -> float:
    """How many entries of a dense matrix take as much time as those of this one."""
    return float(matrix.size) / (1.0 if isinstance(matrix, np.ndarray) else DENSE)


def model_terms(weights: Iterable[Matrix]) -> float:
    """About how many terms the model of a network has."""
    return 2.0 * sum(weight.size for weight in weights)


def model_seconds(weights: Iterable[Matrix]) -> float:
    """About how long a network's model takes to be written and handed to a solver."""
    imports = 0.0 if "pyomo.environ" in sys.modules else PARAMS.pyomo
    return model_terms(weights) / PARAMS.terms + imports


def pace() -> float:
    """Wall-clock seconds here for a predicted second, at least a half; some milliseconds' trial."""
    return _trial(int(time.monotonic() / PARAMS.age))


@lru_cache(maxsize=1)
def _trial(_: int) -> float:
    """The trial of one period."""
    n = PARAMS.order
    matrix = np.random.default_rng(0).standard_normal((n, n))
    began = time.perf_counter()
    np.linalg.cholesky(matrix @ matrix.T + n * np.eye(n))
    return max((time.perf_counter() - began) / seconds_of(7.0 * n**3 / 3.0), 0.5)


def fits(seconds: float, left: float) -> bool:
    """Whether what is predicted to take so many seconds ends within those that are left.

    Parameters
    ----------
    seconds : float
        Of one quiet core, as `seconds_of` has them.
    left : float
        Wall-clock seconds; may be infinite.
    """
    if left <= 0:
        return False
    return seconds * PARAMS.slowest <= left or seconds * pace() <= left


PAUSE_SHARE = 0.01
"""Least time between two savings, or two rows of a history, as a share of what has passed; and most
of the time that goes into writing checkpoints."""

PART = 0.5
"""Of the time left, what a step may take that others have to follow."""


class Clock:
    """Seconds since a beginning, and whether one has to end.

    Parameters
    ----------
    limit : float, optional
        Seconds from `began` on.
    should_stop : callable, optional
        Polled; once True, the clock stays stopped.
    began : float, optional
        Value of `now` at which the clock began; the present by default.
    now : callable, optional
        Where the time comes from.
    around : Clock, optional
        The clock that this one is a part of: it is curtailed with this one.

    Attributes
    ----------
    curtailed : bool
        Whether something was left out because it would not have ended in time.
    stopped : bool
        Whether `stop` was called, as it is for Ctrl-C, whatever `should_stop` says.
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
        """Wall-clock seconds so far."""
        return self._now() - self._began

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit, none once it is stopped."""
        return 0.0 if self.interrupted else max(self._limit - self.seconds, 0.0)

    @property
    def interrupted(self) -> bool:
        """Whether the caller asked to stop."""
        if not self._stopped and self._should_stop is not None and self._should_stop():
            self._stopped = True
        return self._stopped

    @property
    def expired(self) -> bool:
        """Whether the time is over or the caller asked to stop."""
        return self._now() - self._began >= self._limit or self.interrupted

    def fits(self, seconds: float, grace: float = 0.0) -> bool:
        """Whether what is predicted to take so many seconds of a quiet core ends in time.

        If it does not (nor within `grace` seconds more), it is left out: the clock is `curtailed`.
        """
        if fits(seconds, self.left + grace):
            return True
        self.curtail()
        return False

    def part(self) -> Clock:
        """A clock for a step that others have to follow."""
        return self.within(PART * self.left)

    def steps(self) -> Callable[[], bool]:
        """A question to be asked between steps: whether the next one would be too late.

        That is so where one as long as the longest so far would not end in time; something is left
        out then.
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
        """Remember that something is left out for want of time."""
        self.curtailed = True
        if self._around is not None:
            self._around.curtail()

    def stop(self) -> None:
        """Interrupt whatever looks at this clock."""
        self._stopped = self.stopped = True

    def is_set(self) -> bool:
        """Whether the caller asked to stop, in the words of a stop event."""
        return self.interrupted

    def working(self) -> Clock:
        """A clock of what this thread works from now on, in CPU seconds, that ends with this one.

        What methods are compared by: on a busy machine either has its share of the time by chance.
        """
        return Clock(should_stop=lambda: self.expired, now=time.thread_time, around=self)

    def within(self, seconds: float) -> Clock:
        """A clock that begins now and ends with this one, or after `seconds` if that is sooner."""
        limit = min(max(seconds, 0.0), self.left)
        return Clock(limit, lambda: self.interrupted, now=self._now, around=self)
