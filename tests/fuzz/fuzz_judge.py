"""What is wrong with an answer, given the truth."""

from __future__ import annotations

import math
from typing import Protocol

from flint import arb
from fuzz_oracle import exact

from lipyomo import Status

EXACT = 1e-6
"""Relative width up to which an interval may be called exact."""


class Answered(Protocol):
    """A result, as far as it is judged."""

    @property
    def lower(self) -> float: ...
    @property
    def upper(self) -> float: ...
    @property
    def status(self) -> Status: ...
    @property
    def witness(self) -> object: ...


def faults(result: Answered, truth: arb) -> list[str]:
    """Names of the promises that `result` breaks; empty if it keeps all.

    Where the truth is only enclosed, what it leaves open is no fault.
    """
    found = []
    if math.isnan(result.lower) or math.isnan(result.upper):
        return ["nan"]
    if math.isinf(result.lower) or arb(exact(result.lower)) > truth:
        found.append(f"lower above the truth by {_share(result.lower, truth)}")
    if math.isfinite(result.upper) and arb(exact(result.upper)) < truth:
        found.append(f"upper below the truth by {_share(result.upper, truth)}")
    if result.status is Status.EXACT:
        if not result.upper - result.lower <= EXACT * abs(result.upper):
            found.append("exact with a gap")
        if result.witness is None and result.upper > 0:  # zero is attained everywhere
            found.append("exact without a witness")
        if arb(exact(result.lower)) < truth * (1 - 2 * EXACT) and result.upper > 0:
            found.append("exact and wrong")
    return found


def _share(end: float, truth: arb) -> str:
    """How far an end is on the wrong side, relative to the truth."""
    if float(truth) == 0.0 or math.isinf(end):
        return f"{end:.1e}"
    return f"{abs(float(arb(exact(end)) / truth - 1)):.1e}"
