"""The largest constant of several problems, such as those on the parts of a union of domains."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from lipyomo.analyses.api import chosen_settings, solve
from lipyomo.base.clock import Clock
from lipyomo.base.errors import ProblemError
from lipyomo.base.kept import Kept
from lipyomo.base.numerics.rounding import close_enough
from lipyomo.methods.bnb import owner_of
from lipyomo.methods.registry import was_interrupted
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Result, Status
from lipyomo.problems.run import PROVED
from lipyomo.problems.settings import Settings, SettingsKeywords, takes
from lipyomo.search.engine.checkpoint import SearchStates, checkpoint_of

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
    with checkpoint_of(chosen, lambda: owner_of_all(problems)) as file:
        result = _solved(problems, method, chosen, clock, file)
    trouble = file.trouble
    return result.noting(trouble, unwritten=trouble) if trouble else result


def owner_of_all(problems: Sequence[LipschitzProblem]) -> Mapping[str, str]:
    """Return digests of the parts of several problems."""
    each = [owner_of(problem) for problem in problems]
    return {name: " ".join(owner.get(name, "") for owner in each) for name in each[0]}


def _solved(
    problems: Sequence[LipschitzProblem],
    method: str,
    chosen: Settings,
    clock: Clock,
    file: SearchStates,
) -> Result:
    """Solve all problems, one after another."""
    found: list[Result] = []
    history: list[tuple[float, float, float]] = []
    for k, problem in enumerate(problems):
        left = len(problems) - k
        upper = max((one.upper for one in found), default=0.0) if left == 1 else float("inf")
        lower = max((one.lower for one in found), default=0.0)

        def progress(now: Progress, k: int = k, lower: float = lower, upper: float = upper) -> None:
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
    return _largest(problems, found, history, clock.seconds)


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
