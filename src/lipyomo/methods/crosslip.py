"""CrossLip(i), MIPCrossLip(i) and the naive pairwise loop of the LipMIP paper's Table 5."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.errors import MethodError
from lipyomo.methods.registry import Method, register, run_method
from lipyomo.methods.support import Clock, few_vertices
from lipyomo.norms import LinearOutput
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee, Result, Status, close_enough
from lipyomo.settings import Formulation, Settings

_REFERENCE = "Jordan and Dimakis (NeurIPS 2020), appendix E.2 and Table 5"


def pairs(label: int, m: int) -> LinearOutput:
    """The seminorm ``max_j |z_label - z_j|``: what robustness of one class asks for.

    It is cross(label) without the vertex e_label, and never larger.

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


def _delegate(
    problem: LipschitzProblem, settings: Settings, name: str, encoding: Formulation
) -> Result:
    """LipMIP with one of its encodings, under another name."""
    chosen = replace(settings, options={}, formulation=encoding)
    result = run_method("mip", problem, chosen)
    result.method = name
    return result


def run_hull(problem: LipschitzProblem, settings: Settings) -> Result:
    """CrossLip(i): the adjoint MIP, whose functional runs over the whole dual ball."""
    return _delegate(problem, settings, "crosslip", "adjoint")


def run_choice(problem: LipschitzProblem, settings: Settings) -> Result:
    """MIPCrossLip(i): the tangent MIP, with a binary choice among the vertices."""
    return _delegate(problem, settings, "mipcrosslip", "tangent")


def run_loop(problem: LipschitzProblem, settings: Settings) -> Result:
    """One scalar problem a vertex of the dual ball.

    Options
    -------
    method : str
        The exact method of the scalar problems, ``mip`` by default.
    """
    clock = Clock(settings)
    inner = str(settings.options.get("method", "mip"))
    vertices = few_vertices(problem, "pairwise")
    found: list[Result] = []
    for position, y in enumerate(vertices):
        if clock.expired and position:
            break
        share = max(clock.left / (len(vertices) - position), 1e-2)
        scalar = LipschitzProblem(problem.network, problem.domain, problem.input_norm, functional=y)
        chosen = replace(settings, options={}, time_limit=share, progress=None)
        found.append(run_method(inner, scalar, chosen))
    best = max(found, key=lambda result: result.lower)
    complete = len(found) == len(vertices)
    upper = max(result.upper for result in found) if complete else math.inf
    exact = complete and close_enough(best.lower, upper)
    status = Status.EXACT if exact else clock.status(not clock.expired)
    result = Result(
        best.lower,
        upper,
        Status.GAP if status is Status.BOUNDS else status,
        "pairwise",
        Guarantee.EXACT,
        solver=best.solver,
        seconds=clock.seconds,
        witness=best.witness,
        details={"problems": len(found), "values": [each.lower for each in found]},
    )
    if not complete:
        result.warnings.append(f"{len(vertices) - len(found)} scalar problems were not begun")
    return result


register(
    Method(
        name="crosslip",
        title="CrossLip(i)",
        guarantee=Guarantee.EXACT,
        reference=_REFERENCE,
        run=run_hull,
        output_norms=("cross", "cross(i)", "linear"),
    )
)
register(
    Method(
        name="mipcrosslip",
        title="MIPCrossLip(i)",
        guarantee=Guarantee.EXACT,
        reference=_REFERENCE,
        run=run_choice,
        output_norms=("cross", "cross(i)", "linear"),
    )
)
register(
    Method(
        name="pairwise",
        title="Naive pairs",
        guarantee=Guarantee.EXACT,
        reference=_REFERENCE,
        run=run_loop,
        output_norms=("linf", "cross", "cross(i)", "linear"),
        options={"method": "mip"},
    )
)
