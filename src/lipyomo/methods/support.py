"""What the methods of the papers share: reading options, results, rounding, sampled witnesses."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from lipyomo.bounds import LayerBounds, preactivation_bounds
from lipyomo.errors import MethodError
from lipyomo.network import FloatArray
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.result import Guarantee, Result, Status, Witness
from lipyomo.settings import Settings

MAX_VERTICES = 256
"""Most vertices of a dual ball for which a method solves one scalar problem each."""


def whole_number(settings: Settings, name: str, default: int, least: int = 1) -> int:
    """An option that counts something.

    Raises
    ------
    MethodError
        If it is not a whole number of at least `least`.
    """
    value = settings.options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise MethodError(f"option {name} must be a whole number of at least {least}, not {value}")
    return int(value)


def choice(settings: Settings, name: str, allowed: Sequence[str]) -> str:
    """An option with a few values, the first of which is the default.

    Raises
    ------
    MethodError
        If the value is not one of them.
    """
    value = settings.options.get(name, allowed[0])
    if value not in allowed:
        raise MethodError(f"option {name} must be one of {', '.join(allowed)}, not {value}")
    return str(value)


class Clock:
    """Seconds since a method began, and whether it has to end."""

    def __init__(self, settings: Settings) -> None:
        self._start = time.monotonic()
        self._limit = settings.time_limit
        self._should_stop = settings.should_stop

    @property
    def seconds(self) -> float:
        """Wall-clock seconds so far."""
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        """Seconds that are left; infinite without a limit."""
        return self._limit - self.seconds

    @property
    def expired(self) -> bool:
        """Whether the time is over or the caller asked to stop."""
        return self.left <= 0 or self.interrupted

    @property
    def interrupted(self) -> bool:
        """Whether the caller asked to stop."""
        return self._should_stop is not None and self._should_stop()

    def status(self, done: bool = True) -> Status:
        """How a bounding method ended."""
        if done:
            return Status.BOUNDS
        return Status.INTERRUPTED if self.interrupted else Status.TIME_LIMIT


def best_witness(
    problem: LipschitzProblem, points: FloatArray, values: FloatArray, tries: int = 16
) -> Witness | None:
    """A checked witness at the best of some points, shape (n, d), with their `values` (n,).

    Points on a kink or a face of the domain prove nothing; the next best is tried then.
    """
    order = np.argsort(-values, kind="stable")[:tries]
    found = (make_witness(problem, points[k]) for k in order)
    known = [witness for witness in found if witness is not None]
    return max(known, key=lambda witness: witness.value, default=None)


def lower_result(
    method: str, witness: Witness | None, clock: Clock, details: dict[str, Any], done: bool = True
) -> Result:
    """The result of a method that attains a value."""
    result = Result(
        0.0 if witness is None else witness.value,
        math.inf,
        clock.status(done),
        method,
        Guarantee.LOWER,
        seconds=clock.seconds,
        witness=witness,
        details=details,
    )
    if witness is None:
        result.warnings.append("no sampled point was off every kink and inside the domain")
    return result


def upper_result(
    method: str, upper: float, clock: Clock, details: dict[str, Any], done: bool = True
) -> Result:
    """The result of a method that bounds from above."""
    return Result(
        0.0,
        float(upper),
        clock.status(done),
        method,
        Guarantee.UPPER,
        seconds=clock.seconds,
        details=details,
    )


def domain_bounds(problem: LipschitzProblem, settings: Settings) -> LayerBounds:
    """Pre-activation bounds of a (reduced) problem, by the rung of `settings` (linear)."""
    rung = "linear" if settings.bounds == "auto" else settings.bounds
    limit = settings.time_limit if math.isfinite(settings.time_limit) else None
    return preactivation_bounds(problem.network, problem.domain, rung=rung, time_limit=limit)


def few_vertices(problem: LipschitzProblem, method: str) -> FloatArray:
    """Vertices of the dual ball (k, m), one scalar problem each.

    Raises
    ------
    MethodError
        If the dual ball has too many.
    """
    vertices = problem.dual_vertices
    if vertices is None or len(vertices) > MAX_VERTICES:
        raise MethodError(
            f"method {method} treats the vertices of the dual ball one by one, and the norm "
            f"{problem.output_norm.name} of {problem.network.output_dim} outputs has more than "
            f"{MAX_VERTICES}.  Remedy: give a functional or a margin"
        )
    return vertices
