"""Bounds of variables as numbers, and the box that they span."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import BoundsMissing
from lipyomo.problems.domains import Box

if TYPE_CHECKING:
    from lipyomo.problems.domains import Box


def is_variable(item: Any) -> bool:
    """Whether an item is a variable of Pyomo's."""
    return hasattr(item, "is_variable_type") and bool(item.is_variable_type())


def box_of(variables: list[Any], finite: bool = True) -> Box:
    """The box spanned by the variables' bounds (a fixed variable keeps its bounds).

    Raises
    ------
    BoundsMissing
        If `finite` is asked for and a bound is missing.
    """
    ends = np.array([ends_of(*variable.bounds) for variable in variables]).reshape(-1, 2)
    lower, upper = ends[:, 0].copy(), ends[:, 1].copy()
    if finite:
        need_finite(variables, lower, upper)
    return Box(lower, upper)


def ends_of(low: Any, high: Any) -> tuple[float, float]:
    """Bounds as numbers; None stands for infinity."""
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def set_bounds(variable: Any, low: float, high: float) -> None:
    """Bounds of a variable; infinite ones are left out."""
    variable.setlb(low if low > -np.inf else None)
    variable.setub(high if high < np.inf else None)


def need_finite(variables: list[Any], lower: FloatArray, upper: FloatArray) -> None:
    """Raise `BoundsMissing`, by name, unless all variables are bounded."""
    missing = np.flatnonzero(~(np.isfinite(lower) & np.isfinite(upper))).tolist()
    if missing:
        names = ", ".join(variables[j].name for j in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise BoundsMissing(
            f"variables without finite bounds: {names}{more}; a binary that is tied to them has no "
            "big-M without.  Remedy: set bounds on these variables, pass input_bounds= or a "
            "bounded domain, or pass bounds of the pre-activations"
        )
