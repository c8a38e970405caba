"""Confirm the lower end of a result in exact rational arithmetic."""

from __future__ import annotations

from lipyomo.problem import LipschitzProblem
from lipyomo.proofs.replay import replay
from lipyomo.result import Result, Status, close_enough

MOST_BITS = 4000
"""Larger numerators are not written out: the decimal number says enough."""


def confirm(problem: LipschitzProblem, result: Result) -> None:
    """Replay the witness of `result` without rounding and note what was found.

    ``result.details['rational']`` gets ``holds``, ``interior``, ``pattern``, ``value`` (rounded
    down) and ``fraction`` (None where it is irrational or long).  A lower end that float64
    arithmetic had rounded up is corrected, and the status with it; one that is not confirmed at all
    gets a warning.

    Parameters
    ----------
    problem : LipschitzProblem
    result : Result
        Changed in place; left alone if it has no witness.
    """
    if result.witness is None:
        result.warnings.append("there is no witness to recompute in rational arithmetic")
        return
    found = replay(problem, result.witness)
    value = found.below
    fraction = None
    if found.value is not None and found.value.numerator.bit_length() <= MOST_BITS:
        fraction = str(found.value)
    result.details["rational"] = {
        "holds": found.holds,
        "interior": found.interior,
        "pattern": found.pattern,
        "value": value,
        "fraction": fraction,
    }
    if not found.holds:
        result.warnings.append(
            "exact arithmetic does not confirm the witness: its point is not strictly inside the "
            + ("domain" if not found.interior else "region of its pattern")
        )
    elif value < result.lower:
        result.lower = value
        if result.status is Status.EXACT and not close_enough(value, result.upper):
            result.status = Status.GAP
