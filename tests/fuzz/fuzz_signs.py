"""What is wrong with a table of derivatives, given all pieces of a network."""

from __future__ import annotations

from flint import fmpq
from fuzz_oracle import Oracle, exact

from lipyomo import JacobianRanges, Status

EXACT = fmpq(1, 10**6)
"""Relative width up to which an entry may be called exact."""

LEAST = fmpq(1, 10**6)
"""Smaller entries count as of this size: a range's tolerance is at least 1e-12."""


def sign_faults(found: JacobianRanges, oracle: Oracle) -> list[str]:
    """Promises that the table breaks; empty if it keeps all.

    Parameters
    ----------
    found : JacobianRanges
        Of all outputs, in the inputs that can move.
    oracle : Oracle
        Of a polyhedral domain, so that it knows all pieces without rounding.
    """
    jacobians = list(oracle.jacobians())
    faults = []
    for i, row in enumerate(found.entries):
        for j, entry in enumerate(row):
            values = [jacobian[i][j] for jacobian in jacobians]
            least, largest = min(values), max(values)
            ends = {
                "least": (*entry.low, least),
                "largest": (*entry.high, largest),
            }
            size = max(abs(least), abs(largest), LEAST)
            for name, (low, high, truth) in ends.items():
                wide = abs(low) == float("inf") or abs(high) == float("inf")
                if abs(low) != float("inf") and exact(low) > truth:
                    faults.append(f"{name} {i}, {j}: {low!r} is above {float(truth)!r}")
                if abs(high) != float("inf") and exact(high) < truth:
                    faults.append(f"{name} {i}, {j}: {high!r} is below {float(truth)!r}")
                if entry.status is Status.EXACT and (
                    wide or exact(high) - exact(low) > 2 * EXACT * size
                ):
                    faults.append(f"{name} {i}, {j}: exact with a gap")
    return faults
