"""A solver's claim that nothing exceeds a value: what it is worth before it is checked."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.mip.cells import Cell
from lipyomo.mip.scaling import LARGEST, SMALLEST, largest_number, smallest_width
from lipyomo.problem import LipschitzProblem

CHECK_SHARE, CHECK_SECONDS = 0.2, 0.5
"""Most time for the check of a solver's claim: a share of what the solver took, and seconds."""


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


def too_fine(problem: LipschitzProblem, cell: Cell, lower: float = 0.0) -> str:
    """Why a solver's tolerances matter in the model of a cell; empty if they do not.

    Parameters
    ----------
    problem : LipschitzProblem
        Scaled.
    cell : Cell
    lower : float, optional
        An attained value, in the same units.
    """
    largest = largest_number(problem, cell, lower)
    if largest > LARGEST:
        return f"the model holds numbers from 1 to {largest:.0e} even after scaling"
    least = smallest_width(problem, cell)
    return f"the model has ranges of {least:.0e} near 1" if least < SMALLEST else ""


def disbelief(solver: str, claim: float, attained: float) -> str:
    """What is said of a solver that what is attained refutes."""
    return (
        f"{solver} claims that nothing exceeds {claim:.9g}, but {attained:.9g} is attained: its "
        "bound is not used"
    )
