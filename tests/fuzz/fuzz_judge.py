"""What is wrong with an answer, given the truth."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from flint import arb, fmpq
from fuzz_oracle import Oracle, exact
from smooth_oracle import SmoothOracle

from lipyomo import Status

EXACT = 1e-6
"""Relative width up to which an interval may be called exact."""

CERTAIN = 1e-14
"""Relative width of what an oracle says of a point."""

FEW: dict[str, dict[str, object]] = {"clever": {"batches": 5, "batch_size": 50}}
"""Options of methods that only sample, whose every answer is judged alike."""


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
    if result.status is Status.CONTRADICTION:
        found.append("the ends contradict each other")
    if result.status is Status.EXACT:
        if not result.upper - result.lower <= EXACT * abs(result.upper):
            found.append("exact with a gap")
        if result.witness is None and result.upper > 0:  # zero is attained everywhere
            found.append("exact without a witness")
        if arb(exact(result.lower)) < truth * (1 - 2 * EXACT) and result.upper > 0:
            found.append("exact and wrong")
    return found


def false_witness(witness: Any, oracle: Oracle | SmoothOracle) -> list[str]:
    """Whether less than a witness says is attained at its point, or nothing."""
    parts = np.atleast_2d(witness.point).T.tolist()  # a point, or two whose sum it is
    point = [sum(map(exact, part), fmpq(0)) for part in parts]
    if isinstance(oracle, Oracle):
        value = oracle.at(point)
    else:  # a sum is rounded: no point of smooth networks is one
        value = oracle.at([float(fmpq(point[j])) for j in oracle.moving])
    if value is None:
        return ["the witness is on a kink, or not inside"]
    if arb(exact(witness.value)) * (1 - arb(CERTAIN)) > value:
        return [f"false witness: {witness.value!r} where {value.str(20)} is attained"]
    return []


def _share(end: float, truth: arb) -> str:
    """How far an end is on the wrong side, relative to the truth."""
    if float(truth) == 0.0 or math.isinf(end):
        return f"{end:.1e}"
    return f"{abs(float(arb(exact(end)) / truth - 1)):.1e}"
