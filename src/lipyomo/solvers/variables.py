"""Bounds of Pyomo variables as numbers, and as a box."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

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
