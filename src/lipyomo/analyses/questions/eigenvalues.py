"""Extreme eigenvalues of symmetric matrices H(x) over a domain, by suprema of spectral norms.

The largest absolute value c of an eigenvalue is the supremum of ``|H(x)|_2``, attained by the
largest or the least eigenvalue.  The other one follows from the supremum of ``|H(x) - c|_2`` or of
``|H(x) + c|_2``, whose matrices have eigenvalues of only one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.analyses.api import solve
from lipyomo.analyses.questions.several import shared
from lipyomo.base.arrays import IntArray, lengths
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.methods.bnb import owner_of
from lipyomo.methods.registry import was_interrupted
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range
from lipyomo.problems.result import Point, Result, Status
from lipyomo.problems.settings import Settings
from lipyomo.search.engine.checkpoint import SearchStates, checkpoint_of

ALIKE = 1e-4
"""Largest distance of unit vectors u and v at which ``u . H v`` counts as an eigenvalue."""

ROUNDING = 2.0**-50
"""Rounding error of sums of a few numbers, relative to their sizes."""


@dataclass(frozen=True, eq=False)
class _Search:
    """Bounds of eigenvalues of H from the supremum of ``|H(x) + tilt|_2``.

    Attributes
    ----------
    found : Result
    floor, ceiling : float
        Lower and upper bound of all eigenvalues.
    least, largest : float
        At the witness there is an eigenvalue of at most `least`, and one of at least `largest`;
        infinite without a witness.
    has_least, has_largest : bool
        Whether the value that the search attains is the least, or the largest, eigenvalue.
    """

    found: Result
    floor: float
    ceiling: float
    least: float
    largest: float
    has_least: bool
    has_largest: bool

    @classmethod
    def of(cls, found: Result, tilt: float, along: IntArray) -> _Search:
        """Derive the bounds from a result; `along` are the witness's entries for H's columns.

        With unit vectors u and v, ``4 u . M v = (u + v) . M (u + v) - (u - v) . M (u - v)``.  If
        ``b = u . M v - |M| |u - v|**2 / 4`` is positive, then M has an eigenvalue of b or more.
        """
        size, witness = found.upper, found.witness
        off = ROUNDING * (size + abs(tilt))
        floor, ceiling = -size - tilt - off, size - tilt + off
        if not size:
            return cls(found, 0.0, 0.0, 0.0, 0.0, True, True)
        if witness is None:
            return cls(found, floor, ceiling, np.inf, -np.inf, False, False)
        u, v = witness.functional, witness.direction[along]
        u, v = (w / lengths(w) if w.any() else w for w in (u, v))
        apart, across = float(lengths(u - v)), float(lengths(u + v))
        minus = found.lower - size * across**2 / 4.0
        plus = found.lower - size * apart**2 / 4.0
        least = -minus - tilt + off if minus > 0 else np.inf
        largest = plus - tilt - off if plus > 0 else -np.inf
        return cls(found, floor, ceiling, least, largest, across <= ALIKE, apart <= ALIKE)

    @property
    def point(self) -> Point | None:
        """The point of the witness, if there is one."""
        witness = self.found.witness
        return None if witness is None else Point(witness.x, rest=witness.rest)


def eigenvalues(
    tilted: Callable[[float], LipschitzProblem],
    along: IntArray,
    settings: Settings,
    clock: Clock,
) -> Range:
    """Bound the ends of the spectrum of H(x) over a domain, by two or three searches.

    Parameters
    ----------
    tilted : callable
        Maps a number t to the problem whose constant is the supremum of ``|H(x) + t|_2``.
    along : ndarray of int, shape (m,)
        The inputs that correspond to the columns of H.
    settings : Settings
    clock : Clock
        The first search gets a third of the time.

    Returns
    -------
    Range
        ``low`` is the interval of the least eigenvalue, ``high`` that of the largest.

    Raises
    ------
    ProblemError
        If no bound is finite.
    """
    with checkpoint_of(settings, lambda: owner_of(tilted(0.0))) as file:
        found = _ends(tilted, along, settings, clock, file)
    return replace(found, unwritten=file.trouble)


def _ends(
    tilted: Callable[[float], LipschitzProblem],
    along: IntArray,
    settings: Settings,
    clock: Clock,
    file: SearchStates,
) -> Range:
    """Do the work of `eigenvalues`; `file` has the states of the searches, by tilt."""

    def search(tilt: float, left: int) -> _Search:
        own = shared(settings, clock, left, file.part(f"tilted by {tilt!r}"))
        if tilt:  # intervals of tilted matrices would mislead users
            own = replace(own, progress=None)
        found = solve(tilted(tilt), "auto", own)
        if was_interrupted(found):
            clock.stop()
        return _Search.of(found, tilt, along)

    plain = search(0.0, 3)
    size = plain.found.upper
    if not np.isfinite(size):
        raise ProblemError(
            "no finite bound of the eigenvalues was found in time.  Remedy: more time, or a "
            "smaller domain"
        )
    exact = plain.found.status is Status.EXACT
    tilts = [] if exact and plain.has_least else [-size]
    tilts += [] if exact and plain.has_largest else [size]
    further = [search(tilt, len(tilts) - k) for k, tilt in enumerate(tilts)]
    searches = [plain, *further]
    low = min(searches, key=lambda one: one.least)
    high = max(searches, key=lambda one: one.largest)
    states = [one.found.status for one in (searches if len(further) < 2 else further)]
    return Range(
        (max(one.floor for one in searches), low.least),
        (high.largest, min(one.ceiling for one in searches)),
        (
            low.point if np.isfinite(low.least) else None,
            high.point if np.isfinite(high.largest) else None,
        ),
        next((state for state in states if state is not Status.EXACT), Status.EXACT),
        clock.seconds,
        sum(one.found.nodes or 0 for one in searches),
    )
