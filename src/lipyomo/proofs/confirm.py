"""Confirm the lower end of a result in exact rational arithmetic."""

from __future__ import annotations

from dataclasses import replace

from lipyomo.base.numerics.rounding import close_enough
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, Status
from lipyomo.proofs.replay import replay

MOST_BITS = 4000
"""Larger numerators are not written out: the decimal number says enough."""


def confirmed(problem: LipschitzProblem, result: Result) -> Result:
    """The result with its witness replayed without rounding, and what was found.

    ``details['rational']`` holds ``holds``, ``interior``, ``pattern``, ``value`` (rounded down) and
    ``fraction`` (None where it is irrational or long).  A lower end that float64 arithmetic had
    rounded up is corrected, and the status with it; one that is not confirmed at all gets a
    warning.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
    """
    if result.witness is None:
        return result.noting("there is no witness to recompute in rational arithmetic")
    found = replay(problem, result.witness)
    value = found.below
    fraction = None
    if found.value is not None and found.value.numerator.bit_length() <= MOST_BITS:
        fraction = str(found.value)
    rational = {
        "holds": found.holds,
        "interior": found.interior,
        "pattern": found.pattern,
        "value": value,
        "fraction": fraction,
    }
    result = result.noting(rational=rational)
    if not found.holds:
        place = "domain" if not found.interior else "region of its pattern"
        note = "exact arithmetic does not confirm the witness: its point is not strictly inside the"
        return result.noting(f"{note} {place}")
    lower = min(value, result.lower)
    is_wider = result.is_exact and not close_enough(lower, result.upper)
    return replace(result, lower=lower, status=Status.PRECISION if is_wider else result.status)
