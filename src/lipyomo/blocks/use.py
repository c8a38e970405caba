"""Whether one-sided values are used on the side where they mean something.

The value of a hypograph stays at or below a norm, that of an epigraph at or above it.  Minimising
the one, or bounding it from above, says nothing about the norm, and silently so.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pyomo.environ as pyo
from pyomo.core.expr.visitor import identify_variables
from pyomo.repn import generate_standard_repn

from lipyomo.errors import ProblemError


class OneSidedWarning(UserWarning):
    """A one-sided value is bounded on the side where it means nothing."""


_MEANS = {
    "max": ("below", "minimised", "from above", "sense='min', or UpperLipschitzBlock"),
    "min": ("above", "maximised", "from below", "sense='max'"),
}


def check_use(block: Any, promises: list[tuple[Any, str]]) -> None:
    """Check objectives and constraints of the model that a block is in.

    Parameters
    ----------
    block : FormulationBlockData
    promises : list of (VarData, {'max', 'min'})
        Values that mean something only where they are made large, or small.

    Raises
    ------
    ProblemError
        If the objective asks for the other side.

    Warns
    -----
    OneSidedWarning
        If a constraint binds the other side, and the objective does not make up for it.
    """
    root = block.model()
    for variable, sense in promises:
        stays, wrong, side, remedy = _MEANS[sense]
        sign = 1.0 if sense == "max" else -1.0
        pull = sign * _pull(root, variable)
        if pull < 0.0:
            raise ProblemError(
                f"'{variable.name}' is {wrong}, but it only stays {stays} the norm, so that says "
                f"nothing about the norm.  Remedy: {remedy}"
            )
        if pull > 0.0:
            continue
        for constraint in _foreign_constraints(root):
            if _binds(constraint, variable, sign):
                warnings.warn(
                    f"'{constraint.name}' binds '{variable.name}' {side}, but that only stays "
                    f"{stays} the norm: the constraint says nothing about the norm unless "
                    f"something else makes the value {'large' if sense == 'max' else 'small'}.  "
                    f"Remedy: {remedy}",
                    OneSidedWarning,
                    stacklevel=2,
                )
                break


def _pull(root: Any, variable: Any) -> float:
    """Positive if the objective makes the variable large, negative if small, zero if neither."""
    for objective in root.component_data_objects(pyo.Objective, active=True):
        weight = _weight(objective.expr, variable)
        if weight:
            return weight if objective.sense == pyo.maximize else -weight
    return 0.0


def _weight(expression: Any, variable: Any) -> float:
    """Coefficient of a variable in the linear part of an expression; 0 if it is not there."""
    if all(found is not variable for found in identify_variables(expression)):
        return 0.0
    form = generate_standard_repn(expression, compute_values=True, quadratic=False)
    for coefficient, found in zip(form.linear_coefs, form.linear_vars, strict=True):
        if found is variable:
            return float(coefficient)
    return 0.0


def _binds(constraint: Any, variable: Any, sign: float) -> bool:
    """Whether a constraint bounds ``sign * variable`` from above."""
    weight = sign * _weight(constraint.body, variable)
    return (weight > 0.0 and constraint.has_ub()) or (weight < 0.0 and constraint.has_lb())


def _foreign_constraints(root: Any) -> Iterator[Any]:
    """The active constraints that are not part of this package's blocks."""
    inside: set[int] = set()
    for block in root.block_data_objects(active=True):
        parent = block.parent_block()
        if hasattr(block, "_promises") or (parent is not None and id(parent) in inside):
            inside.add(id(block))
            continue
        yield from block.component_data_objects(pyo.Constraint, active=True, descend_into=False)
