"""The numbers of this room."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """Rates of a quiet core, which predictions of time assume, and what exact arithmetic may cost.

    Attributes
    ----------
    rate : float
        Operations a second.
    order : int
        Of the matrix of the trial that compares the machine with that core: ten milliseconds.
    age : float
        Seconds after which a trial is out of date: a machine gets busy.
    slowest : float
        What fits on a machine so many times slower than that core needs no trial.
    terms : float
        Terms of a Pyomo model that are written, and handed to a solver, in a second.
    pyomo : float
        Seconds that the import of Pyomo takes, which imports the statistics of SciPy.
    entries : int
        Equations times rows of the simplex method in rational numbers: time against thin regions
        that stay undecided.
    iterations : int
        Of that method, of Newton's, of projections: only what does not converge takes so many.
    interior_steps : int
        Most steps of interior point methods for small programs: more than are needed where numbers
        are of size one.
    to_wall : float
        Share of the way to the nearest wall that such a step may go (0.9 to 0.99 alike).
    sets : int
        Sets of rows among which the vertices of a dual ball are looked for without rounding.
    """

    rate: float = 2e10
    order: int = 400
    age: float = 2.0
    slowest: float = 1000.0
    terms: float = 1e6
    pyomo: float = 0.7
    entries: int = 20_000
    iterations: int = 400
    interior_steps: int = 40
    to_wall: float = 0.98
    sets: int = 5000


PARAMS = Params()
