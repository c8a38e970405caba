"""Checks that one-sided values are maximised or minimised as they must be.

The value of a hypograph is at most a norm, that of an epigraph at least.  Minimising the former, or
bounding it from above, does not restrict the norm, without any error of the solver.  The checks
look at the signs in the objective and in constraints with such values; if the direction is unclear,
there is a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyomo.environ as pyo
from pyomo.common.collections import ComponentMap
from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr.visitor import identify_variables

from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.blocks.written import rows_of_others
from lipyomo.solvers.variables import ends_of, implied_size, slope_signs


class OneSidedWarning(UserWarning):
    """A one-sided value is bounded on the side where that does not restrict the norm."""


@dataclass(frozen=True)
class OneSided:
    """A variable that is only meaningful if it is maximised, or minimised.

    Attributes
    ----------
    variable : VarData
    sign : {1, -1}
        1 if it must be maximised, -1 if it must be minimised.
    end : float
        Its upper (1) or lower (-1) bound set by the block.
    strict : bool
        Whether bounding the variable on the other side is an error, not a warning.
    """

    variable: Any
    sign: int
    end: float
    strict: bool = False


_MEANS = {
    1: ("below", "minimised", "from above", "large"),
    -1: ("above", "maximised", "from below", "small"),
}

_REMEDIES = {
    (1, True): "an UpperLipschitzBlock, whose value stays above the constant",
    (-1, True): "a LipschitzBlock, whose value stays below the constant",
    (1, False): "a NormBlock with sense='min', or sense='both'",
    (-1, False): "a NormBlock with sense='max', or sense='both'",
}
"""Alternatives for the other side, by sign and strictness; only Lipschitz blocks are strict."""


def check_use(root: Any) -> None:
    """Check how a model uses the one-sided values of its blocks.

    Parameters
    ----------
    root : BlockData
        The model, whose constraints are visited once for all blocks.

    Raises
    ------
    ProblemError
        If the objective has the wrong direction, or a Lipschitz constant is bounded on the wrong
        side.

    Warns
    -----
    OneSidedWarning
        If another norm is bounded on the wrong side, or if the direction of a term is unclear.
    """
    blocks = [block for block in root.block_data_objects(active=True) if hasattr(block, "_record")]
    found = [value for block in blocks if not block._owned for value in block._record.one_sided]
    known = ComponentMap((value.variable, value) for value in found)
    for value in found:
        _check_bounds(value)
    for objective in root.component_data_objects(pyo.Objective, active=True):
        turn = 1 if objective.sense == pyo.maximize else -1
        for variable, slope in slope_signs(objective.expr).items():
            if variable in known:
                _check_objective(known[variable], objective.name, slope and turn * slope)
    for constraint in rows_of_others(root, blocks, (pyo.Constraint,)):
        held = [v for v in identify_variables(constraint.body, include_fixed=False) if v in known]
        if held:
            _check_constraint([known[v] for v in held], constraint)


def _check_bounds(value: OneSided) -> None:
    """Complain if the variable is fixed or bounded more tightly than its block implies.

    Bounds that transformations such as Pyomo's ``fbbt`` derive from the block's rows are allowed.
    """
    variable, sign = value.variable, value.sign
    low, high = ends_of(*variable.bounds)
    bound = sign * float(variable.value) if variable.fixed else high if sign > 0 else -low
    slack = EXACT_TOLERANCE * max(1.0, abs(bound))
    if bound >= sign * value.end - slack:
        return
    rows = variable.parent_block().component_data_objects(pyo.Constraint, active=None)
    if bound < min((implied_size(row, variable, sign) for row in rows), default=np.inf) - slack:
        _complain(value, "a fixed value" if variable.fixed else "a bound of its own", True)


def _check_objective(value: OneSided, name: str, slope: float | None) -> None:
    """Complain about an objective in the wrong direction."""
    stays, wrong, _, _ = _MEANS[value.sign]
    if slope is None:
        _complain(value, f"the objective '{name}'", False)
    elif slope * value.sign < 0:
        raise ProblemError(
            f"'{value.variable.name}' is {wrong}, but it only stays {stays} the norm, so that says "
            f"nothing about the norm.  Remedy: {_REMEDIES[value.sign, value.strict]}"
        )


def _check_constraint(values: list[OneSided], constraint: Any) -> None:
    """Complain about a constraint that may bind values on the wrong side.

    Equations with other variables, which are mostly definitions, are not judged.
    """
    slopes = slope_signs(constraint.body)
    if constraint.equality and len(slopes) > 1:
        return
    low, high = ends_of(constraint.lb, constraint.ub)
    least, most = ends_of(*compute_bounds_on_expr(constraint.body))
    for value in values:
        slope = slopes.get(value.variable, 0.0)
        toward = None if slope is None else slope * value.sign
        up, down = toward is None or toward > 0, toward is None or toward < 0
        if (most > high and up) or (least < low and down):
            _complain(value, f"'{constraint.name}'", toward is not None)


def _complain(value: OneSided, what: str, certain: bool) -> None:
    """Raise or warn: something binds a value on the wrong side."""
    stays, _, side, size = _MEANS[value.sign]
    said = (
        f"{what} binds '{value.variable.name}' {side}, but that only stays {stays} the norm: "
        "this says nothing about the norm unless something else makes the value "
        f"{size}.  Remedy: {_REMEDIES[value.sign, value.strict]}"
    )
    if value.strict and certain:
        raise ProblemError(said)
    warnings.warn(said, OneSidedWarning, stacklevel=2)
