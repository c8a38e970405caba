"""A solver's claim that nothing exceeds a value: what it is worth before it is checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """An upper end of the whole problem on a solver's word.

    Attributes
    ----------
    upper : float
        In the units that were given.
    solver, basis : str
        Whose word, and with what tolerances.
    seconds : float
        What the solver took.
    doubt : str
        Why tolerances matter too much for the word to be taken; empty if they do not.
    """

    upper: float
    solver: str
    basis: str
    seconds: float
    doubt: str = ""


def disbelief(solver: str, claim: float, attained: float) -> str:
    """What is said of a solver that what is attained refutes."""
    return (
        f"{solver} claims that nothing exceeds {claim:.9g}, but {attained:.9g} is attained: its "
        "bound is not used"
    )
