"""Upper bounds claimed by a solver, before they are checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """An upper bound of the whole problem claimed by a solver.

    Attributes
    ----------
    upper : float
        In the original units.
    solver, basis : str
        The solver, and its tolerances.
    seconds : float
        Time of the solver.
    doubt : str
        Why the claim is in doubt due to tolerances; empty if it is not.
    """

    upper: float
    solver: str
    basis: str
    seconds: float
    doubt: str = ""


def disbelief(solver: str, claim: float, attained: float) -> str:
    """Return the message on a solver whose claim is refuted by an attained value."""
    return (
        f"{solver} claims that nothing exceeds {claim:.9g}, but {attained:.9g} is attained: its "
        "bound is not used"
    )
