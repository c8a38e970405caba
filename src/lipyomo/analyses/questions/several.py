"""The largest constant, or value, of several problems, such as those on the parts of a domain."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from lipyomo.analyses.api import chosen_settings, question_settings, solve
from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.kept import Kept
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.base.system.plain import plain
from lipyomo.methods.bnb import owner_of
from lipyomo.methods.registry import was_interrupted
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, tolerance_of
from lipyomo.problems.result import Progress, Result, Status
from lipyomo.problems.run import PROVED
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import checkpoint_of

LEAST = time.get_clock_info("monotonic").resolution
"""Time limit in seconds of a part once the time is up, which still gives a bound."""


def shared(settings: Settings, clock: Clock, left: int, kept: Kept | None = None) -> Settings:
    """Return settings for one of the `left` remaining parts, which share the time of the clock.

    Parameters
    ----------
    settings : Settings
        Settings of the whole.
    clock : Clock
    left : int
    kept : Kept, optional
        The place for the part's state.
    """
    share = max(clock.left / left, LEAST)
    own = replace(settings, time_limit=share, started=None, should_stop=lambda: clock.interrupted)
    return own.keeping(kept)


@takes(SettingsKeywords)
def solve_largest(
    problems: Sequence[LipschitzProblem],
    method: str = "auto",
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Result:
    """Bound the largest constant of several problems, one after the other.

    Parameters
    ----------
    problems : sequence of LipschitzProblem
        Problems of one network, with the same norms.
    method, settings, **changes
        See `lipyomo.solve`.  The remaining problems share the time that is left.

    Returns
    -------
    Result
        Its witness is that of the problem ``details["part"]``, which has the largest lower end.
        ``details["parts"]`` has the interval of each problem.

    Raises
    ------
    LipyomoError
        If there is no problem, or one is refused.
    """
    if not problems:
        raise ProblemError("there is no problem to solve.  Remedy: give one or more")
    chosen = chosen_settings(settings, changes)
    clock = Clock(chosen.time_limit, chosen.should_stop, chosen.started)
    if len(problems) == 1:
        return solve(problems[0], method, chosen)
    found: list[Result] = []
    history: list[tuple[float, float, float]] = []
    with checkpoint_of(chosen, lambda: owner_of_all(problems)) as file:
        for k, problem in enumerate(problems):
            left = len(problems) - k
            upper = max((one.upper for one in found), default=0.0) if left == 1 else float("inf")
            lower = max((one.lower for one in found), default=0.0)

            def progress(
                now: Progress, k: int = k, lower: float = lower, upper: float = upper
            ) -> None:
                if chosen.progress is not None:
                    message = f"part {k + 1} of {len(problems)}"
                    ends = max(lower, now.lower), max(upper, now.upper)
                    chosen.progress(Progress(clock.seconds, *ends, now.nodes, message))

            own = replace(shared(chosen, clock, left, file.part(str(k))), progress=progress)
            found.append(solve(problem, method, own))
            if was_interrupted(found[-1]):
                clock.stop()
            ends = max(lower, found[-1].lower), max(upper, found[-1].upper)
            history.append((clock.seconds, *ends))
    result = _largest(problems, found, history, clock.seconds)
    trouble = file.trouble
    return result.noting(trouble, unwritten=trouble) if trouble else result


def owner_of_all(problems: Sequence[LipschitzProblem]) -> Mapping[str, str]:
    """Return digests of the parts of several problems."""
    each = [owner_of(problem) for problem in problems]
    return {name: " ".join(owner.get(name, "") for owner in each) for name in each[0]}


def _largest(
    problems: Sequence[LipschitzProblem],
    found: Sequence[Result],
    history: list[tuple[float, float, float]],
    seconds: float,
) -> Result:
    """Combine the results of all problems."""
    best = max(range(len(found)), key=lambda k: found[k].lower)
    widest = max(found, key=lambda one: one.upper)
    lower, upper = found[best].lower, widest.upper
    status = widest.status
    if lower > upper or any(one.status is Status.CONTRADICTION for one in found):
        status = Status.CONTRADICTION
    elif found[best].status is Status.EXACT and close_enough(lower, upper):
        status = Status.EXACT
    estimates = [one.estimate for one in found if one.estimate is not None]
    parts = [
        {
            "domain": problem.domain.describe(),
            "lower": one.lower,
            "upper": one.upper,
            "status": str(one.status),
            "seconds": one.seconds,
        }
        for problem, one in zip(problems, found, strict=True)
    ]
    unproved = [one.basis for one in found if one.basis not in (None, PROVED)]
    return replace(
        found[best],
        upper=upper,
        status=status,
        estimate=max(estimates, default=None),
        seconds=seconds,
        nodes=sum(one.nodes or 0 for one in found),
        unstable=None,
        basis=unproved[0] if unproved else widest.basis,
        warnings=list(dict.fromkeys(note for one in found for note in one.warnings)),
        history=history,
        details={**found[best].details, "part": best, "parts": parts},
        look_ahead=None,
    )


@dataclass(frozen=True, eq=False)
class LargestValue:
    """The interval of ``sup |f(x)|_beta`` over a domain.

    Attributes
    ----------
    lower : float
        A value attained at `x`, in exact arithmetic.
    upper : float
        A proved upper bound.
    x : ndarray, shape (d,), or None
    functional : ndarray, shape (m,), or None
        The vertex y of the dual ball with ``|y . f(x)| = lower``.
    status : Status
        ``exact`` if both ends are equal up to 1e-6, else why they are not.
    seconds : float
    nodes : int
    rest : ndarray, shape (d,), optional
        The point is ``x + rest``; see `lipyomo.Witness`.
    unwritten : str
        Why the checkpoint could not be written; empty if it could.
    """

    lower: float
    upper: float
    x: FloatArray | None
    functional: FloatArray | None
    status: Status
    seconds: float
    nodes: int
    rest: FloatArray | None = None
    unwritten: str = ""

    @property
    def is_exact(self) -> bool:
        """Whether the value is known up to 1e-6."""
        return self.status is Status.EXACT

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        found: dict[str, Any] = plain(vars(self))
        if self.rest is None:
            del found["rest"]
        return found


@takes(SettingsKeywords)
def largest_value(
    problem: LipschitzProblem | Sequence[LipschitzProblem],
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> LargestValue:
    """Bound ``sup |f(x)|_beta`` over the domain of a problem, or over the domains of several.

    Parameters
    ----------
    problem : LipschitzProblem or sequence of LipschitzProblem
        Its network, domain and output norm are used; the domain must be bounded, and the dual ball
        of the norm must have vertices (all norms but ``l2``).
    settings, **changes
        See `lipyomo.value_range`.

    Returns
    -------
    LargestValue

    Raises
    ------
    NormError
        If the dual ball has no vertices, or too many.
    ProblemError
        If the values cannot be bounded, for example on unbounded domains.
    """
    remedy = "give a LipschitzProblem, or several"
    instance(problem, (LipschitzProblem, Sequence), "the problem", ProblemError, remedy)
    problems = [problem] if isinstance(problem, LipschitzProblem) else list(problem)
    for one in problems:
        instance(one, LipschitzProblem, "a problem", ProblemError, remedy)
    if not problems:
        raise ProblemError("there is no problem.  Remedy: give one or more")

    from lipyomo.analyses.questions.values import value_range  # fifty modules needed only here

    def ranged(one: LipschitzProblem, row: FloatArray, own: Settings) -> Range:
        return value_range(one.network, one.domain, row, own)

    return largest_of(problems, ranged, question_settings(settings, changes))


def largest_of(
    problems: Sequence[LipschitzProblem],
    ranged: Callable[[LipschitzProblem, FloatArray, Settings], Range],
    settings: Settings,
) -> LargestValue:
    """Compute the largest value from the ranges of all functionals.

    Parameters
    ----------
    problems : sequence of LipschitzProblem
    ranged : callable
        Returns the range of a functional of a problem's network, given settings.
    settings : Settings
        Settings of all searches together.
    """
    clock = Clock(settings.time_limit, settings.should_stop, settings.started)
    asked = [(one, row) for one in problems for row in _vertices(one)]
    found: list[Range] = []
    with checkpoint_of(settings, lambda: owner_of_all(problems)) as file:
        for k, (one, row) in enumerate(asked):
            own = shared(settings, clock, len(asked) - k, file.part(str(k)))
            found.append(ranged(one, row, own))
            if found[-1].status is Status.INTERRUPTED:
                clock.stop()
    best = max(range(len(found)), key=lambda k: found[k].magnitude[0])
    widest = max(found, key=lambda one: one.magnitude[1])
    lower, upper = found[best].magnitude[0], widest.magnitude[1]
    side = 1 if found[best].high[0] >= -found[best].low[1] else 0
    place = found[best].witnesses[side]
    close = upper - lower <= tolerance_of(lower)
    status = Status.EXACT if close else widest.status
    if lower > upper or any(one.status is Status.CONTRADICTION for one in found):
        status = Status.CONTRADICTION
    elif status is Status.EXACT and not close:  # exact only relative to a larger end
        status = Status.PRECISION
    return LargestValue(
        lower,
        upper,
        None if place is None else place.x,
        asked[best][1],
        status,
        clock.seconds,
        sum(one.nodes for one in found),
        None if place is None else place.rest,
        file.trouble,
    )


def _vertices(problem: LipschitzProblem) -> FloatArray:
    """Return the functionals whose largest absolute value is the norm."""
    vertices = problem.dual_vertices
    if vertices is None:
        raise NormError(
            f"the largest value in the norm {problem.output_norm.name} is not known: its dual ball "
            "has no vertices, or too many.  Remedy: take linf, cross or a functional"
        )
    return vertices
