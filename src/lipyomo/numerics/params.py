"""The numbers of this room."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """Rates of a quiet core, which predictions of time assume, and what exact arithmetic may cost.

    Attributes
    ----------
    rate, small : float
        Operations a second of small work, and the operations up to which work is small.
    growth, most : float
        The rate grows with this power of the work, up to so many times.
    sparse : float
        Dense entries that one of a sparse matrix costs as much time as.
    order, rounds : int
        Of the trial that compares the machine with that core: its size, and how often it is made.
    usual : float
        Seconds that a round of the trial takes on that core.
    age : float
        Seconds after which a trial is out of date: a machine gets busy.
    terms : float
        Terms of a Pyomo model that are written, and handed to a solver, in a second.
    pyomo : float
        Seconds that the import of Pyomo takes, which imports the statistics of SciPy.
    entries, pivots : int
        Of the simplex method in rational numbers (equations times rows): time against thin regions
        that stay undecided.
    sets : int
        Sets of rows among which the vertices of a dual ball are looked for without rounding.
    """

    rate: float = 5e9
    small: float = 1e7
    growth: float = 0.3
    most: float = 8.0
    sparse: float = 8.0
    order: int = 192
    rounds: int = 12
    usual: float = 0.0007
    age: float = 2.0
    terms: float = 1e6
    pyomo: float = 0.7
    entries: int = 20_000
    pivots: int = 400
    sets: int = 5000


PARAMS = Params()
