"""Smoothness constants (Lipschitz constants of gradients), and the eigenvalues of Hessians.

The extreme eigenvalues of symmetric matrices H(x) are found by suprema of spectral norms.  The
largest absolute value c of an eigenvalue is the supremum of ``|H(x)|_2``, attained by the largest
or the least eigenvalue.  The other one follows from the supremum of ``|H(x) - c|_2`` or of
``|H(x) + c|_2``, whose matrices have eigenvalues of only one sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.api import chosen_settings, question_settings, solve
from lipyomo.analyses.questions.several import shared, solve_largest
from lipyomo.base.arrays import FloatArray, IntArray, lengths
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.methods.bnb import owner_of
from lipyomo.methods.registry import was_interrupted
from lipyomo.networks.derivatives.gradients import tilted_gradient
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.norms import DUAL
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, check_fit, chosen_functional
from lipyomo.problems.result import Point, Result, Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import checkpoint_of

ALIKE = 1e-4
"""Largest distance of unit vectors u and v at which ``u . H v`` counts as an eigenvalue."""

ROUNDING = 2.0**-50
"""Rounding error of sums of a few numbers, relative to their sizes."""


@dataclass(frozen=True, eq=False)
class Curvature(Range):
    """The least and the largest eigenvalue of a Hessian over a domain.

    Attributes
    ----------
    low, high : (float, float)
        Their intervals, which are called `least` and `largest` as well.  The upper end of `least`
        and the lower end of `largest` are attained.
    witnesses : (Point or None, Point or None)
        Points that attain them.
    status : Status
        ``exact`` if both eigenvalues are, else why they are not.
    seconds : float
    nodes : int
    unwritten : str
        Why the checkpoint could not be written; empty if it could, or if there is none.
    """

    @property
    def least(self) -> tuple[float, float]:
        """Interval of the least eigenvalue."""
        return self.low

    @property
    def largest(self) -> tuple[float, float]:
        """Interval of the largest eigenvalue."""
        return self.high

    @property
    def is_exact(self) -> bool:
        """Whether both are known up to 1e-6 of the Hessian's norm."""
        return self.status is Status.EXACT

    @property
    def convex(self) -> bool | None:
        """Whether the function is convex on the domain; None if this is not decided."""
        return _decided(self.least)

    @property
    def concave(self) -> bool | None:
        """Whether the function is concave on the domain; None if this is not decided."""
        low, high = self.largest
        return _decided((-high, -low))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; infinite ends are None."""
        found = super().to_dict()
        ends = {"least": found.pop("low"), "largest": found.pop("high")}
        return {**ends, "convex": self.convex, "concave": self.concave, **found}


def _decided(least: tuple[float, float]) -> bool | None:
    """Return whether a number in an interval is nonnegative; None if this is not decided."""
    return True if least[0] >= 0.0 else False if least[1] < 0.0 else None


@takes(SettingsKeywords)
def smoothness(
    network: Network,
    domain: Domain,
    norm: str = "linf",
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Result:
    """Bound the smoothness constant L over a domain: the Lipschitz constant of the gradient.

    It is the supremum of the Hessian's operator norm from the norm of the inputs to its dual, i.e.
    of ``|u . H(x) v|`` over unit vectors u and v.  On convex domains
    ``|f(y) - f(x) - f'(x) (y - x)| <= L |y - x|**2 / 2``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
    norm : {'linf', 'l1', 'l2'}, optional
        Norm of the inputs; l2 gives the spectral norm of the Hessian.
    functional : array_like, shape (m,), optional
        c, for ``c . f``.  The default is the largest constant of all outputs, which is that of the
        Jacobian with the outputs in linf.
    settings, **changes : optional
        See `lipyomo.solve`.

    Returns
    -------
    Result
        Its witness has a point x, a direction v and a functional u: ``u . H(x) v`` is the lower
        end.  With several outputs, ``details["part"]`` is the one with the largest constant.

    Raises
    ------
    NetworkError
        If the gradient is not continuous (as for ReLU units), or not supported.
    ProblemError
        If the norm or the functional is invalid, or products of units are too large on the domain.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")  # sin(2 x)
    >>> round(lipyomo.smoothness(f, lipyomo.Box(-1, 1, 1)).upper, 4)  # |-4 sin(2 x)|
    4.0
    """
    settings = chosen_settings(settings, changes)
    check_fit(network, domain)
    rows = np.eye(network.output_dim)
    if functional is not None:
        rows = chosen_functional(network, functional)[None]
    return solve_largest([_problem(network, domain, norm, row) for row in rows], "auto", settings)


def smoothness_problem(
    network: Network,
    domain: Domain,
    norm: str = "linf",
    functional: npt.ArrayLike | None = None,
) -> LipschitzProblem:
    """Return the problem whose constant is the smoothness constant of ``c . f``.

    It is used for `lipyomo.solve` with other methods, and for proofs:
    ``lipyomo.proofs.write_proof(path, problem, result)``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
        The gradient has entries for the inputs that are not frozen in it.
    norm : {'linf', 'l1', 'l2'}, optional
        Norm of the inputs.
    functional : array_like, shape (m,), optional
        c; not needed for a network with one output.

    Raises
    ------
    NetworkError, ProblemError
        See `smoothness`.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="sin")  # sin(2 x)
    >>> problem = lipyomo.smoothness_problem(f, lipyomo.Box(-1, 1, 1))
    >>> round(lipyomo.solve(problem).upper, 4)
    4.0
    """
    check_fit(network, domain)
    return _problem(network, domain, norm, chosen_functional(network, functional))


def _problem(
    network: Network, domain: Domain, norm: str, row: FloatArray, tilt: float = 0.0
) -> LipschitzProblem:
    """Return the problem of a gradient's constant, for the inputs that are not frozen."""
    if norm not in DUAL:
        raise ProblemError(f"the norm {norm!r} is unknown.  Remedy: use {', '.join(DUAL)}")
    moving = np.flatnonzero(~domain.frozen)
    if not moving.size:
        raise ProblemError("no input can move in the domain, so that there is nothing to bound")
    return LipschitzProblem(tilted_gradient(network, row, moving, tilt), domain, norm, DUAL[norm])


@takes(SettingsKeywords)
def curvature(
    network: Network,
    domain: Domain,
    functional: npt.ArrayLike | None = None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Curvature:
    """Bound the least and the largest eigenvalue of the Hessian over a domain.

    The function is convex on a convex domain if and only if none is negative.  The supremum of the
    spectral norm of ``H + c`` is the Lipschitz constant of the gradient of ``f(x) + c |x|**2 / 2``.

    Parameters
    ----------
    network : Network
        f, with smooth units.
    domain : Domain
        Frozen inputs are not part of the Hessian.
    functional : array_like, shape (m,), optional
        c, for ``c . f``; not needed for a network with one output.
    settings, **changes : optional
        See `lipyomo.solve`.  A third of the time is used for the largest absolute value.

    Returns
    -------
    Curvature

    Raises
    ------
    NetworkError, ProblemError
        See `smoothness`; also if no bound is finite.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="softplus")
    >>> lipyomo.curvature(f, lipyomo.Box(-1, 1, 1)).convex
    True
    """
    settings = question_settings(settings, changes, solves=True)
    check_fit(network, domain)
    row = chosen_functional(network, functional)
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    moving = np.flatnonzero(~domain.frozen)
    found = eigenvalues(
        lambda tilt: _problem(network, domain, "l2", row, tilt), moving, settings, clock
    )
    return Curvature(**vars(found))


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

    def search(tilt: float, left: int) -> _Search:
        own = shared(settings, clock, left, file.part(f"tilted by {tilt!r}"))
        if tilt:  # intervals of tilted matrices would mislead users
            own = replace(own, progress=None)
        found = solve(tilted(tilt), "auto", own)
        if was_interrupted(found):
            clock.stop()
        return _Search.of(found, tilt, along)

    with checkpoint_of(settings, lambda: owner_of(tilted(0.0))) as file:
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
        file.trouble,
    )
