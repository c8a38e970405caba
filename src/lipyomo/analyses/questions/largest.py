"""The largest norm of a network's values over a domain, for example of a difference of networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from lipyomo.analyses.api import question_settings
from lipyomo.analyses.questions.several import owner_of_all, shared
from lipyomo.analyses.questions.values import value_range
from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import NormError, ProblemError
from lipyomo.base.system.plain import plain
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.ranges import Range, tolerance_of
from lipyomo.problems.result import Status
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import checkpoint_of


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
