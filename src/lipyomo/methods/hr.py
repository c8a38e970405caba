"""HR-1 and HR-2: first and second order of the semialgebraic hierarchy."""

from __future__ import annotations

from lipyomo.methods.registry import method
from lipyomo.methods.shor import FIELDS, REFERENCE, relax
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run


@method("hr1", "HR-1", Guarantee.UPPER, REFERENCE, **FIELDS)
def run_first(run: Run) -> Result:
    """HR-1: the first order for any number of hidden layers (one layer: Shor's relaxation).

    Options
    -------
    tolerance : float
        Relative accuracy of the semidefinite program, 1e-6 by default.
    """
    return relax(run, cells=False)


@method("hr2", "HR-2", Guarantee.UPPER, REFERENCE, **FIELDS)
def run_second(run: Run) -> Result:
    """HR-2: with the second-order information on the cells {y_k, z_k} and {x_j, t_j}.

    The convex hulls of these cells are expressed by products of bounds (see
    `lipyomo.relaxations.semidefinite.shor_model`), so that the bound is at least as tight as with
    moment matrices of order 2, while the matrix stays that of HR-1.

    Options
    -------
    tolerance : float
        Relative accuracy of the semidefinite program, 1e-6 by default.
    """
    return relax(run, cells=True)
