"""LipMIP: the exact constant by mixed-integer programming, checked.

The bound ladder, an incumbent, and a partition of the domain come first; each cell of the domain
gets a model; every optimum that a solver claims is recomputed from the weights at an interior
point of its region, and cut off if there is none.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lipyomo.errors import DomainError
from lipyomo.methods.registry import Method, register
from lipyomo.problem import LipschitzProblem
from lipyomo.regions import make_witness
from lipyomo.result import Guarantee, Result, Status, close_enough
from lipyomo.settings import Settings

if TYPE_CHECKING:
    from lipyomo.mip.interval import Narrowing

PARTITION_SHARE = 0.25
"""Largest share of the time limit that the partition of the domain may take."""


def run(problem: LipschitzProblem, settings: Settings) -> Result:
    """Solve the problem to optimality, or narrow the interval until something stops it.

    Parameters
    ----------
    problem : LipschitzProblem
    settings : Settings
        `time_limit`, `gap`, `threads`, `solver`, `formulation`, `bounds`, `progress` and
        `should_stop` concern this method; option ``partition`` (default true) may keep the domain
        whole.

    Returns
    -------
    Result

    Raises
    ------
    DomainError
        If the domain is unbounded or curved.
    """
    from lipyomo.mip.interval import Narrowing

    check_domain(problem)
    state = Narrowing(problem, settings)
    notes: list[str] = []
    facts: dict[str, Any] = {}
    try:
        _narrow(problem, settings, state, notes, facts)
    except KeyboardInterrupt:
        state.interrupted = True
    return _result(state, settings, notes, facts)


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


def _narrow(
    problem: LipschitzProblem,
    settings: Settings,
    state: Narrowing,
    notes: list[str],
    facts: dict[str, Any],
) -> None:
    """Bounds, incumbent, partition, models: everything that moves the interval."""
    from lipyomo.mip.cells import partition, whole
    from lipyomo.mip.model import encoding_of
    from lipyomo.mip.search import CellSearch, first_incumbent

    reduced = problem.reduced
    small = reduced.problem
    if not small.network.kinked_units:
        _affine(problem, state)
        return
    limit = 0.5 * state.left if math.isfinite(state.left) else None
    root = whole(small, settings.bounds, limit)
    facts.update(unstable=root.bounds.unstable, bounds=root.bounds.rung)
    facts["interval_bound"] = root.upper
    facts["formulation"] = encoding_of(small.network, root, small.input_norm, settings.formulation)
    state.bound(root.upper)
    first_incumbent(problem, settings, state, root.bounds.unstable)
    cells = [root]
    if settings.options.get("partition", True) and not state.closed:
        began = state.seconds
        share = PARTITION_SHARE * settings.time_limit

        def enough() -> bool:
            return state.out_of_time or state.seconds - began > share

        cells = partition(small, root, state.lower, settings.bounds, enough)
        state.bound(max((cell.upper for cell in cells), default=state.lower))
    facts["cells"] = len(cells)
    CellSearch(problem, settings, state, notes, facts).run(cells)


def _affine(problem: LipschitzProblem, state: Narrowing) -> None:
    """A network without kinks has one Jacobian."""
    witness = make_witness(problem, problem.domain.center)
    state.attain(witness)
    if witness is not None:
        found = problem.value_of(witness.pattern)
        rounding = 1.0 + 2.0**-50 * (sum(problem.network.sizes) + 4)
        state.bound(found.upper * rounding)


def _result(
    state: Narrowing, settings: Settings, notes: list[str], facts: dict[str, Any]
) -> Result:
    """Say how the run ended."""
    if close_enough(state.lower, state.upper):
        status = Status.EXACT
    elif state.interrupted:
        status = Status.INTERRUPTED
    elif settings.gap > 0 and state.closed:
        status = Status.GAP
    elif state.left <= 0.0:
        status = Status.TIME_LIMIT
    else:
        status = Status.GAP
    if state.witness is None:
        notes.append("no interior point was found: nothing is attained yet")
    if settings.solver != "auto":
        # Also where bounds alone closed the interval and no model was needed.
        facts.setdefault("solver", settings.solver)
    keys = ("unstable", "bounds", "formulation", "solver")
    unstable, bounds, formulation, solver = (facts.pop(key, None) for key in keys)
    return Result(
        state.lower,
        state.upper,
        status,
        "mip",
        Guarantee.EXACT,
        formulation=formulation,
        solver=solver,
        seconds=state.seconds,
        nodes=state.nodes,
        unstable=unstable if unstable is not None else 0,
        bounds=bounds,
        witness=state.witness,
        warnings=list(dict.fromkeys(notes)),
        history=state.closing_history(),
        details=facts,
    )


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
