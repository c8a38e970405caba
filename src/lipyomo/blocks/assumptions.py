"""Assumptions of a formulation: bounds of variables, and other blocks being active."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr.visitor import identify_variables

from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.variables import ends_of, is_variable, range_of_expression


class FixedInputWarning(UserWarning):
    """Some inputs are fixed, so that directions along them are excluded."""


@dataclass(frozen=True)
class Assumption:
    """Bounds of a variable, or of an expression, that a formulation relies on.

    Attributes
    ----------
    source : VarData or expression
    lower, upper : float
        Infinite where no bound is relied on.
    """

    source: Any
    lower: float
    upper: float

    def broken(self) -> str | None:
        """Return a message if the bounds have become wider since, otherwise None."""
        source = self.source
        if is_variable(source):
            found = [source.bounds]
            if source.fixed and source.value is not None:
                found.append((source.value, source.value))
        else:  # a variable in it may be fixed outside of its bounds
            found = [range_of_expression(source), compute_bounds_on_expr(source)]
        for k, (low, high) in enumerate(starmap(ends_of, found)):
            sizes = [abs(end) for end in (low, high) if math.isfinite(end)]
            room = k * EQUAL * max([1.0, *sizes])  # no tolerance for declared bounds (k = 0)
            if not (low >= self.lower - room and high <= self.upper + room):
                now = f"fixed at {low:g}" if low == high else f"now in [{low:g}, {high:g}]"
                built = f"the block was built for [{self.lower:g}, {self.upper:g}]"
                return f"'{source}' is {now}, {built}"
        return None


def can_move(source: Any) -> bool:
    """Return whether an input varies: not a number, a fixed variable, or one with equal bounds."""
    if is_variable(source):
        low, high = ends_of(*source.bounds)
        return not source.fixed and low < high
    if hasattr(source, "is_potentially_variable"):
        return any(map(can_move, identify_variables(source)))
    return False


@dataclass(frozen=True)
class Unmoving:
    """An input along which directions are excluded, because it cannot vary.

    Attributes
    ----------
    source : VarData, expression or number
    """

    source: Any

    def broken(self) -> str | None:
        """Return a message if the input can vary now, otherwise None."""
        if not can_move(self.source):
            return None
        return f"'{self.source}' can move now, and no direction along it is counted"


def enclosing(component: Any) -> Iterator[Any]:
    """Yield the block of a component, the parent of that block, and so on."""
    block = component.parent_block()
    while block is not None:
        yield block
        block = block.parent_block()


def switched_off(block: Any, seen_from: Any) -> Any:
    """Return the deactivated block, `block` or one around it, that does not contain `seen_from`.

    None if there is none.  A transformed disjunct is deactivated, but does not count, since its
    constraints were moved to another block.
    """
    shared = {id(seen_from), *map(id, enclosing(seen_from))}
    for part in (block, *enclosing(block)):
        if id(part) in shared:
            return None
        if not part.active and getattr(part, "transformation_block", None) is None:
            return part
    return None
