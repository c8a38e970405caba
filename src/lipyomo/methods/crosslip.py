"""CrossLip(i), MIPCrossLip(i) and the naive pairwise loop of the LipMIP paper's Table 5."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lipyomo.base.errors import MethodError
from lipyomo.methods.mip import MODELLED, refuses, solve_encoded
from lipyomo.methods.registry import method, run_method
from lipyomo.methods.support import fall_back, few_vertices, product_bound
from lipyomo.primal.heuristics.local_search import quick_incumbent
from lipyomo.primal.regions.witness import in_norms_of
from lipyomo.problems.norms import LinearOutput
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result, Status
from lipyomo.problems.run import PROVED, Run

_REFERENCE = "Jordan and Dimakis (NeurIPS 2020), appendix E.2 and Table 5"

_FIELDS: dict[str, Any] = {"output_norms": ("cross", "cross(i)", "linear"), **MODELLED}


def pairs(label: int, m: int) -> LinearOutput:
    """Return the seminorm ``max_j |z_label - z_j|``, which decides robustness of one class.

    It is cross(label) without the vertex e_label, so it is never larger.

    Parameters
    ----------
    label : int
    m : int
        Number of outputs, at least two.

    Raises
    ------
    MethodError
        If the label is not an output, or there is no other class.
    """
    if not 0 <= label < m or m < 2:
        raise MethodError(f"label {label} needs to be one of several outputs, 0 to {m - 1}")
    rows = np.eye(m)[label] - np.eye(m)
    return LinearOutput(vertices=np.delete(rows, label, axis=0), name=f"pairs({label})")


@method("crosslip", "CrossLip(i)", Guarantee.EXACT, _REFERENCE, **_FIELDS)
def run_hull(run: Run) -> Result:
    """CrossLip(i): the adjoint MIP, whose functional runs over the whole dual ball."""
    return solve_encoded(run, "adjoint")


@method("mipcrosslip", "MIPCrossLip(i)", Guarantee.EXACT, _REFERENCE, **_FIELDS)
def run_choice(run: Run) -> Result:
    """MIPCrossLip(i): the tangent MIP, with a binary choice among the vertices."""
    return solve_encoded(run, "tangent")


@method(
    "pairwise",
    "Naive pairs",
    Guarantee.EXACT,
    _REFERENCE,
    input_norms=("linf", "l1"),
    output_norms=("linf", "cross", "cross(i)", "linear"),
    directions=("two-slope",),
    options={"method": "mip"},
)
def run_loop(run: Run) -> Result:
    """Solve one scalar problem for each vertex of the dual ball.

    Options
    -------
    method : str
        Exact method for the scalar problems; by default ``mip``, or ``bnb`` on balls.
    """
    problem, settings = run.problem, run.settings
    fit = "mip" if refuses(problem) is None else "bnb"
    inner = str(settings.options.get("method", fit))
    vertices = few_vertices(problem, "pairwise")
    run.raise_lower(quick_incumbent(problem, settings.seed, run.clock))
    fall_back(run)  # gives an interval soon
    product_bound(run)
    found: list[Result] = []
    excess = 0.0  # most time by which a problem exceeded its share, as some steps run to their end
    for position, y in enumerate(vertices):
        if run.clock.left <= excess:
            run.clock.curtail()
            break
        share = max(run.clock.left / (len(vertices) - position), 1e-2)
        own = {"functional": y, "directions": problem.directions}
        scalar = LipschitzProblem(problem.network, problem.domain, problem.norm, **own)
        chosen = replace(settings, options={}, time_limit=share, started=None, progress=None)
        began = run.clock.seconds
        found.append(run_method(inner, scalar, chosen))
        excess = max(excess, run.clock.seconds - began - share)
        if found[-1].status is Status.INTERRUPTED:
            run.clock.stop()
        point = found[-1].witness
        run.raise_lower(None if point is None else in_norms_of(problem, point))
    complete = len(found) == len(vertices)
    if complete:
        last = max(found, key=lambda result: result.upper)
        run.drop_upper(last.upper, last.basis or PROVED)
    else:
        run.warn(f"{len(vertices) - len(found)} scalar problems were not begun")
    run.record(problems=len(found), values=[each.lower for each in found])
    solver = found[0].solver if found else None
    return run.result(complete and not run.expired, solver=solver)
