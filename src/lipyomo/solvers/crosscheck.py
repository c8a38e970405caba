"""One model, two solvers: their answers must not contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyomo.core import Objective

from lipyomo.errors import SolverError
from lipyomo.solvers.options import SolverOptions
from lipyomo.solvers.outcome import SolveOutcome
from lipyomo.solvers.registry import SettingsLike
from lipyomo.solvers.solve import solve_model
from lipyomo.solvers.status import Progress, SolveStatus
from lipyomo.solvers.supervise import StopEvent

_ANSWERED = frozenset(
    {
        SolveStatus.OPTIMAL,
        SolveStatus.GAP,
        SolveStatus.TIME_LIMIT,
        SolveStatus.LIMIT,
        SolveStatus.INTERRUPTED,
        SolveStatus.INFEASIBLE,
        SolveStatus.UNBOUNDED,
    }
)


class SolversDisagree(SolverError):
    """Two solvers contradict each other on one model.

    Parameters
    ----------
    reasons : list of str
        Each contradiction.
    first, second : SolveOutcome
        Both answers.
    """

    def __init__(self, reasons: list[str], first: SolveOutcome, second: SolveOutcome) -> None:
        self.reasons = reasons
        self.first = first
        self.second = second
        super().__init__(
            f"{first.solver} {first.version} and {second.solver} {second.version} disagree: "
            + "; ".join(reasons)
            + ".  At least one is wrong: try a third, or tighten integrality_tolerance"
        )


@dataclass(frozen=True, eq=False)
class CrossCheck:
    """Two answers that agree.

    Parameters
    ----------
    first, second : SolveOutcome
    bound : float
        The better of the two dual bounds.
    incumbent : float or None
        The better of the two incumbents.
    """

    first: SolveOutcome
    second: SolveOutcome
    bound: float
    incumbent: float | None


def cross_check(
    model: Any,
    first: str,
    second: str,
    tol: float = 1e-6,
    options: SolverOptions | None = None,
    start: Mapping[Any, float] | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: StopEvent | None = None,
    settings: SettingsLike = None,
) -> CrossCheck:
    """Solve a model with two solvers and compare all that they say.

    Parameters
    ----------
    model : BlockData
    first, second : str
        Names of solvers; neither is replaced by another if the model is too large for it.
    tol : float
        Two numbers contradict each other if they do by more than ``tol * max(1, |number|)``.
    options, start, progress, stop, settings
        As in `solve_model`.

    Returns
    -------
    CrossCheck

    Raises
    ------
    SolversDisagree
        If an incumbent of one lies beyond the bound of the other, if both claim an optimum and the
        optima differ, or if one finds a point where the other claims that there is none.
    SolverError
        If one of the two gave no answer at all (licence, size, crash).
    """

    def solve(name: str) -> SolveOutcome:
        outcome = solve_model(
            model, name, options, start, progress, stop, settings=settings, fallback=False
        )
        if outcome.status not in _ANSWERED:
            raise SolverError(
                f"cross-check: {name} gave no answer ({outcome.status.value}): {outcome.message}"
            )
        return outcome

    one = solve(first)
    return compare(one, solve(second), _maximises(model), tol)


def compare(first: SolveOutcome, second: SolveOutcome, maximise: bool, tol: float) -> CrossCheck:
    """Compare two answers to one model; see `cross_check`."""
    reasons = [
        *_beyond(first, second, maximise, tol),
        *_beyond(second, first, maximise, tol),
        *_statuses(first, second),
        *_statuses(second, first),
        *_optima(first, second, tol),
    ]
    if reasons:
        raise SolversDisagree(reasons, first, second)
    incumbents = [o.incumbent for o in (first, second) if o.incumbent is not None]
    best = max if maximise else min
    tightest = min if maximise else max
    return CrossCheck(
        first,
        second,
        tightest(first.bound, second.bound),
        best(incumbents) if incumbents else None,
    )


def _beyond(one: SolveOutcome, other: SolveOutcome, maximise: bool, tol: float) -> list[str]:
    """Compare the incumbent of one with the bound of the other."""
    if one.incumbent is None:
        return []
    excess = one.incumbent - other.bound if maximise else other.bound - one.incumbent
    if excess <= tol * max(1.0, abs(one.incumbent)):
        return []
    return [
        f"{one.solver} has a solution of {one.incumbent!r} beyond the bound "
        f"{other.bound!r} of {other.solver}"
    ]


def _statuses(one: SolveOutcome, other: SolveOutcome) -> list[str]:
    """Compare claims of infeasibility and unboundedness."""
    unbounded = one.status is SolveStatus.UNBOUNDED
    if unbounded and other.status in (SolveStatus.OPTIMAL, SolveStatus.GAP, SolveStatus.INFEASIBLE):
        return [f"{one.solver} says unbounded, {other.solver} says {other.status.value}"]
    return []


def _optima(first: SolveOutcome, second: SolveOutcome, tol: float) -> list[str]:
    """Compare two optima."""
    optimal = SolveStatus.OPTIMAL
    if first.status is not optimal or second.status is not optimal:
        return []
    one, two = first.incumbent, second.incumbent
    if one is None or two is None or abs(one - two) <= tol * max(1.0, abs(one)):
        return []
    return [f"{first.solver} has the optimum {one!r}, {second.solver} {two!r}"]


def _maximises(model: Any) -> bool:
    """Whether the model's objective is maximised."""
    objectives = model.component_data_objects(Objective, active=True, descend_into=True)
    return any(int(objective.sense) == -1 for objective in objectives)
