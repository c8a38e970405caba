"""Bounds of Pyomo variables, as numbers and as a box, and ranges and signs of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyomo.common.collections import ComponentMap
from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr import SumExpression
from pyomo.core.expr.calculus.derivatives import Modes, differentiate
from pyomo.core.expr.calculus.diff_with_pyomo import DifferentiationException
from pyomo.core.expr.visitor import identify_variables
from pyomo.repn import generate_standard_repn

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import BoundsMissing
from lipyomo.problems.domains import Box

if TYPE_CHECKING:
    from lipyomo.problems.domains import Box


def is_variable(item: Any) -> bool:
    """Return whether an item is a Pyomo variable."""
    return hasattr(item, "is_variable_type") and bool(item.is_variable_type())


def box_of(variables: list[Any], finite: bool = True) -> Box:
    """Return the box of the variables' bounds (those of fixed variables, too).

    Raises
    ------
    BoundsMissing
        If `finite` is True and a bound is missing.
    """
    ends = np.array([ends_of(*variable.bounds) for variable in variables]).reshape(-1, 2)
    lower, upper = ends[:, 0].copy(), ends[:, 1].copy()
    if finite:
        need_finite(variables, lower, upper)
    return Box(lower, upper)


def ends_of(low: Any, high: Any) -> tuple[float, float]:
    """Convert bounds to numbers; None stands for infinity."""
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def set_bounds(variable: Any, low: float, high: float) -> None:
    """Set the bounds of a variable; infinite ones are removed."""
    variable.setlb(low if low > -np.inf else None)
    variable.setub(high if high < np.inf else None)


def need_finite(variables: list[Any], lower: FloatArray, upper: FloatArray) -> None:
    """Raise `BoundsMissing`, with the names, unless all variables are bounded."""
    missing = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper))).tolist()
    if missing:
        names = ", ".join(variables[j].name for j in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise BoundsMissing(
            f"variables without finite bounds: {names}{more}; a binary that is tied to them has no "
            "big-M without.  Remedy: set bounds on these variables, pass input_bounds= or a "
            "bounded domain, or pass bounds of the pre-activations"
        )


def combination(coefs: list[float], items: list[Any], constant: float = 0.0) -> Any:
    """Return ``coefs . items + constant`` of numbers and expressions."""
    numbers = [(c, item) for c, item in zip(coefs, items, strict=True) if c != 0.0]
    fixed = constant + sum(c * item for c, item in numbers if isinstance(item, float))
    terms = [c * item for c, item in numbers if not isinstance(item, float)]
    return SumExpression([*terms, fixed]) if terms else fixed


def range_of_expression(expression: Any) -> tuple[float, float]:
    """Enclose an expression by its variables' bounds (even of fixed ones), rounded outwards."""
    lower, upper = ends_of(*compute_bounds_on_expr(expression, ignore_fixed=True))
    return lower - 1e-12 * abs(lower), upper + 1e-12 * abs(upper)


def slope_signs(expression: Any) -> ComponentMap:
    """Return the signs of an expression's derivatives by variable; None if a sign may change."""
    form = generate_standard_repn(expression, compute_values=True, quadratic=False)
    if form.is_linear():
        signs = np.sign(form.linear_coefs).tolist()
        return ComponentMap(zip(form.linear_vars, signs, strict=True))
    variables = list(identify_variables(expression, include_fixed=False))
    try:
        slopes = differentiate(expression, wrt_list=variables, mode=Modes.reverse_symbolic)
    except DifferentiationException:
        slopes = [None] * len(variables)
    found = ComponentMap()
    for variable, slope in zip(variables, slopes, strict=True):
        low, high = ends_of(*((None, None) if slope is None else compute_bounds_on_expr(slope)))
        found[variable] = 1.0 if low >= 0.0 < high else -1.0 if high <= 0.0 > low else None
    return found


def implied_size(row: Any, variable: Any, sign: int) -> float:
    """Bound ``sign * variable`` from above by a linear row and the other variables' bounds."""
    form = generate_standard_repn(row.body, compute_values=True, quadratic=False)
    weights = ComponentMap(zip(form.linear_vars, form.linear_coefs, strict=True))
    weight = weights.pop(variable, 0.0)
    if not form.is_linear() or not weight:
        return np.inf
    low, high = ends_of(row.lb, row.ub)
    total = sign * ((high if weight * sign > 0 else low) - form.constant) / weight
    for other, own in weights.items():
        total -= min(sign * own / weight * end for end in ends_of(*other.bounds))
    return float(total)
