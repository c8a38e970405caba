"""Witnesses of networks with smooth units: the norm of the Jacobian at a point, in ball arithmetic.

The supremum over X is not less than the norm at any point of X near which the Jacobian is
continuous.  So a point is valid, even on the boundary of X, if every unit whose slope has jumps is
proved not to be at one.  Units that only depend on inputs that cannot move do not matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from flint import arb, arb_mat, ctx

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.primal.regions.ball_arithmetic import (
    PRECISION,
    UnitAt,
    around_ball,
    matrix_of,
    units_along,
)
from lipyomo.problems.directions import along_columns
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence


def smooth_witness(problem: LipschitzProblem, point: FloatArray) -> Witness | None:
    """Compute a witness at a point of the domain, whose frozen inputs have their values.

    Parameters
    ----------
    problem : LipschitzProblem
    point : ndarray, shape (d,)

    Returns
    -------
    Witness or None
        None if the point is not in the domain, or a unit may be at a jump of its slope.
    """
    if not np.isfinite(point).all() or not problem.domain.holds(point):
        return None
    found = problem.value_at(point)
    with ctx.workprec(PRECISION):
        at = _rates(problem, point)
        if at is None:
            return None
        slopes, pattern = at
        gradient = _gradient(problem, slopes, found.functional)
        value = _size(gradient, problem.norm)
        if problem.output_norm.dual_ball == "round":
            value = value / _size([arb(y) for y in found.functional.tolist()], "l2")
        excess = problem.output_norm.excess
        if excess:
            value = value * (1 - arb(excess))
        below, _ = around_ball(value)
    least = max(below, 0.0) if np.isfinite(below) else 0.0
    return Witness(point, found.direction, found.functional, tuple(pattern), 0.0, least)


def smooth_derivatives(
    problem: LipschitzProblem, point: FloatArray, rows: FloatArray
) -> list[list[arb]] | None:
    """Compute gradients of functionals (p, m) at a point, in directions or movable inputs.

    The point is (d,), or (2, d) for the sum of two rows.  Return None where `smooth_witness` does.
    """
    if not np.isfinite(point).all() or not problem.domain.holds(point):
        return None
    with ctx.workprec(PRECISION):
        at = _rates(problem, point)
        return None if at is None else [_gradient(problem, at[0], row) for row in rows]


def _rates(
    problem: LipschitzProblem, point: FloatArray
) -> tuple[list[list[arb]], list[BoolArray]] | None:
    """Return the slopes of all units at a point, and the signs of their pre-activations.

    Return None if a unit that moves may be at a jump of its slope.
    """
    slopes: list[list[arb]] = []
    pattern = []
    moving, hidden = ~problem.domain.frozen | problem.at_fixed, problem.network.hidden
    for layer, units in zip(hidden, units_along(hidden, point), strict=True):
        moving = np.asarray(layer.sizes @ moving.astype(np.float64)) > 0
        if any(_may_jump(unit) for unit, moves in zip(units, moving, strict=True) if moves):
            return None
        slopes.append([unit.slope for unit in units])
        pattern.append(np.array([bool(unit.at > 0) for unit in units]))
    return slopes, pattern


def _may_jump(unit: UnitAt) -> bool:
    """Return whether a unit may be at a jump of its slope."""
    kind = unit.kind
    breaks = (place for place, jumps in zip(kind.breaks, kind.jumps, strict=True) if jumps)
    return any((unit.at - arb(place)).contains(0) for place in breaks)


def _gradient(
    problem: LipschitzProblem, slopes: Sequence[Sequence[arb]], functional: FloatArray
) -> list[arb]:
    """Compute the gradient of a functional for these slopes of the units."""
    network = problem.network
    row = arb_mat([[arb(y) for y in functional.tolist()]]) * matrix_of(network.head)
    for layer, slope in zip(reversed(network.hidden), reversed(slopes), strict=True):
        row = arb_mat([[row[0, k] * s for k, s in enumerate(slope)]]) * matrix_of(layer)
    return _along(row, problem)


def _size(entries: Sequence[arb], input_norm: str) -> arb:
    """Compute the norm of a gradient in the dual of an input norm."""
    if input_norm == "l2":
        return sum((entry * entry for entry in entries), arb(0)).sqrt()
    sizes = [abs(entry) for entry in entries]
    if input_norm == "linf":
        return sum(sizes, arb(0))
    return max(sizes, key=lambda size: float(size.mid()))


def _along(row: arb_mat, problem: LipschitzProblem) -> list[arb]:
    """Restrict a gradient to the inputs that can move, or to a problem's directions."""
    if problem.directions is None:
        return [row[0, j] for j in np.flatnonzero(~problem.domain.frozen).tolist()]
    return along_columns(row.tolist(), problem.directions, arb)[0]
