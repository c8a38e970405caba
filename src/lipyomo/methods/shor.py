"""Shor's relaxation of the Lipschitz constant of networks with one hidden layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.base.system.memory import LARGE, MEGABYTE
from lipyomo.base.system.processes import POLL, ChildProcess
from lipyomo.methods.options import option
from lipyomo.methods.registry import LINEAR, method
from lipyomo.methods.support import domain_bounds, few_vertices, vertex_bounds
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Result
from lipyomo.problems.run import Run
from lipyomo.relaxations.linear import LayerBounds
from lipyomo.relaxations.semidefinite.interior import DualPoint, minimise_gamma, predicted_seconds
from lipyomo.relaxations.semidefinite.shor_model import ShorModel, program_size

REFERENCE = "Chen, Lasserre, Magron and Pauwels, Semialgebraic optimization (NeurIPS 2020)"

FIELDS: dict[str, Any] = {
    "unbounded": True,
    "directions": ("two-slope",),
    "input_norms": ("linf", "l2"),
    "output_norms": LINEAR,
    "options": {"tolerance": 1e-6},
}
"""Fields of the methods of this hierarchy."""


def _tolerance(run: Run) -> float:
    value = option(run, "tolerance")
    if not isinstance(value, int | float) or not 0 < value < 1:
        raise MethodError(f"option tolerance must be a number between 0 and 1, not {value}")
    return float(value)


Asked: TypeAlias = "tuple[LipschitzProblem, LayerBounds, FloatArray, bool]"
"""Arguments of `ShorModel`: a problem with its bounds, a functional, whether with cells."""


def _solve(asked: Asked, tolerance: float, clock: Clock) -> DualPoint:
    """Solve the semidefinite program of one functional; return the best point once time is up.

    A large program is solved in a separate process, because its steps are long.
    """
    problem, bounds, _, cells = asked
    if predicted_seconds(*program_size(problem, bounds, cells)) < POLL:
        return minimise_gamma(ShorModel(*asked).program(), tolerance, lambda: clock.left)
    found = DualPoint(np.zeros(0), math.inf, 0, math.inf, False)
    with ChildProcess(_minimum, asked, tolerance, clock.left) as child:
        for kind, *said in child:
            if kind != "idle":
                found = said[0]
            if clock.expired:
                break
    return found


def _minimum(
    send: Callable[..., None], asked: Asked, tolerance: float, seconds: float
) -> DualPoint:
    """Solve the program in the other process, and send every iterate."""
    clock = Clock(seconds)
    program = ShorModel(*asked).program()
    return minimise_gamma(
        program, tolerance, lambda: clock.left, progress=lambda point: send("point", point)
    )


def _too_much(
    problem: LipschitzProblem, bounds: LayerBounds, cells: bool, clock: Clock
) -> str | None:
    """Return why no program can be solved, if it would take too much memory or time, or None."""
    variables, products = program_size(problem, bounds, cells)
    if 16.0 * products**2 > LARGE:  # the matrix of the multipliers and its factor
        return (
            f"the relaxation has about {products} multipliers: their dense system would take more "
            f"than {LARGE // MEGABYTE} MB"
        )
    if not clock.fits(predicted_seconds(variables, products)):
        return (
            f"the relaxation has about {variables} variables and {products} multipliers: too many "
            "for the time that is left"
        )
    return None


def relax(run: Run, cells: bool) -> Result:
    """Solve Shor's relaxation, one semidefinite program for each vertex of the dual ball.

    Parameters
    ----------
    run : Run
        The option ``tolerance`` is the relative accuracy of the semidefinite programs.
    cells : bool
        Whether to add the products of HR-2.
    """
    clock, tolerance = run.clock, _tolerance(run)
    small = run.problem.reduced.problem
    vertices = few_vertices(small, run.method)
    bounds = domain_bounds(run)
    simple = vertex_bounds(run, bounds).tolist()
    run.drop_upper(max(simple))
    points: list[DualPoint] = []
    reason = _too_much(small, bounds, cells, clock) if bounds.unstable else None
    if reason is not None:
        remedy = "a smaller domain decides more units; crown, eclipse and sdp are for such networks"
        run.warn(f"{reason}.  The bound is that of fastlip.  Remedy: {remedy}")
    for position, y in enumerate(vertices if bounds.unstable else vertices[:0]):
        if run.expired or reason is not None:
            break
        point = _solve((small, bounds, y, cells), tolerance, clock)
        bound = point.bound
        if cells and not point.converged and not run.expired:
            # HR-1 proves more than an HR-2 program that was stopped early
            bound = min(bound, _solve((small, bounds, y, False), 1e-4, clock).bound)
        simple[position] = min(simple[position], bound)
        points.append(point)
        run.drop_upper(max(simple))
    done = not bounds.unstable or len(points) == len(vertices)
    done = done and all(point.converged for point in points)
    run.record(
        programs=len(points),
        multipliers=max((len(point.y) for point in points), default=0),
        iterations=[point.iterations for point in points],
        gap=max((point.gap for point in points), default=0.0),
    )
    if not done and reason is None:
        run.warn(
            "a semidefinite program ended before it met its tolerance: the bound holds, but is "
            "not the best of this relaxation"
        )
    return run.result(done or None)


def refuses(problem: LipschitzProblem) -> str | None:
    """Return why a problem is refused, if it has more than one hidden layer, or None."""
    layers = sum(bool(layer.bent.any()) for layer in problem.reduced.problem.network.hidden)
    if layers > 1:
        return (
            f"it is for one hidden layer, the network has {layers}.  Remedy: use hr1, its form for "
            "deeper networks"
        )
    return None


@method("shor", "Shor", Guarantee.UPPER, REFERENCE, refuses=refuses, **FIELDS)
def run(run: Run) -> Result:
    """Shor's relaxation for one hidden layer.

    Options
    -------
    tolerance : float
        Relative accuracy of the semidefinite program, 1e-6 by default.
    """
    return relax(run, cells=False)
