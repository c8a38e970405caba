"""Ranges and monotonicity of Pyomo expressions, from bounds of their variables."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyomo.common.collections import ComponentMap
from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr import SumExpression
from pyomo.core.expr.calculus.derivatives import Modes, differentiate
from pyomo.core.expr.calculus.diff_with_pyomo import DifferentiationException
from pyomo.core.expr.visitor import identify_variables
from pyomo.repn import generate_standard_repn

from lipyomo.solvers.variables import ends_of


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
