"""LipMIP: the exact constant by mixed-integer programming, checked.

The bound ladder, an incumbent, and a partition of the domain come first; each cell of the domain
gets a model; every optimum that a solver claims is recomputed from the weights at an interior
point of its region, and cut off if there is none.
"""

from __future__ import annotations

import math
from typing import Any

from lipyomo.errors import DomainError
from lipyomo.methods.registry import Method, register
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.result import Guarantee, Result
from lipyomo.run import Run

PARTITION_SHARE = 0.25
"""Largest share of the time limit that the partition of the domain may take."""


def run(run: Run) -> Result:
    """Solve the problem to optimality, or narrow the interval until something stops it.

    Parameters
    ----------
    run : Run
        Of its settings, `threads`, `solver`, `formulation` and `bounds` concern this method; option
        ``partition`` (default true) may keep the domain whole.

    Returns
    -------
    Result

    Raises
    ------
    DomainError
        If the domain is unbounded or curved.
    """
    check_domain(run.problem)
    return run.result(**_narrow(run))


def check_domain(problem: LipschitzProblem) -> None:
    """Raise `DomainError` unless the domain is a bounded polyhedron."""
    domain = problem.domain
    if not domain.is_bounded:
        raise DomainError(
            f"the domain ({domain.describe()}) is unbounded, and a mixed-integer model needs a "
            "finite bound for each switch.  Remedy: give a bounded domain, or use method bnb, "
            "which works on unbounded domains"
        )
    if not domain.is_polyhedral:
        raise DomainError(
            f"the domain ({domain.describe()}) is not a polyhedron, which a mixed-integer model "
            "cannot express.  Remedy: give a box or a polytope, or use method bnb"
        )


def _narrow(run: Run) -> dict[str, Any]:
    """Bounds, incumbent, partition, models: everything that moves the interval.

    Returns
    -------
    dict
        Fields of the `Result`.
    """
    from lipyomo.mip.cells import partition, whole
    from lipyomo.mip.loop import CellSearch, first_incumbent
    from lipyomo.mip.model import encoding_of

    problem, settings = run.problem, run.settings
    small = problem.reduced.problem
    if not small.network.kinked_units:
        _affine(run)
        return {"unstable": 0, "solver": None if settings.solver == "auto" else settings.solver}
    root = whole(small, settings.bounds, 0.5 * run.left if math.isfinite(run.left) else None)
    run.record(interval_bound=root.upper)
    run.drop_upper(root.upper)
    first_incumbent(run, root.bounds.unstable)
    cells = [root]
    if settings.options.get("partition", True) and not run.closed:
        watch = run.clock.within(PARTITION_SHARE * settings.time_limit)
        cells = partition(small, root, run.lower, settings.bounds, lambda: watch.expired)
        run.drop_upper(max([run.lower, *(cell.upper for cell in cells)]))
    search = CellSearch(run)
    search.solve(cells)
    run.record(cells=len(cells), models=search.models, no_good_cuts=search.no_good_cuts)
    if search.models:
        run.record(probed_unstable=search.probed_unstable)
    planned = encoding_of(small.network, root, small.input_norm, settings.formulation)
    # Also where bounds alone closed the interval and no model was needed.
    asked = None if settings.solver == "auto" else settings.solver
    return {
        "unstable": root.bounds.unstable,
        "bounds": root.bounds.rung,
        "formulation": search.formulation or planned,
        "solver": search.solver or asked,
    }


def _affine(run: Run) -> None:
    """A network without kinks has one Jacobian."""
    problem = run.problem
    witness = make_witness(problem, problem.domain.center)
    run.raise_lower(witness)
    if witness is not None:
        found = problem.value_of(witness.pattern)
        rounding = 1.0 + 2.0**-50 * (sum(problem.network.sizes) + 4)
        run.drop_upper(found.upper * rounding)


METHOD = register(
    Method(
        "mip",
        "LipMIP",
        Guarantee.EXACT,
        "Jordan and Dimakis 2020 (LipMIP); adjoint and tangent encodings",
        run,
        options={"partition": True},
    )
)
