"""Parameters of this package."""

from __future__ import annotations

from typing import NamedTuple


class Params(NamedTuple):
    """Rates of an idle reference core, for predictions of time, and limits of exact arithmetic.

    Attributes
    ----------
    rate : float
        Operations per second.
    order : int
        Order of the matrix in the measurement of the machine's speed: ten milliseconds.
    age : float
        Seconds after which a measurement is repeated, since the load of a machine changes.
    slowest : float
        What fits on a machine so many times slower than that core needs no measurement.
    terms : float
        Terms of a Pyomo model that are built and passed to a solver per second.
    pyomo : float
        Seconds of importing Pyomo, which imports SciPy's statistics.
    entries : int
        Limit of equations times rows of the rational simplex method: a trade-off between time and
        thin regions that stay undecided.
    iterations : int
        Limit of iterations of that method, of Newton's method and of projections, reached only
        without convergence.
    interior_steps : int
        Limit of steps of interior-point methods for small programs, more than needed for
        well-scaled numbers.
    to_wall : float
        Fraction of the step to the boundary (0.9 to 0.99 perform alike).
    sets : int
        Limit of the sets of rows in the exact enumeration of a dual ball's vertices.
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
