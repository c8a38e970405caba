"""What a formulation relies on: bounds of variables, and other blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import starmap
from typing import Any

from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr
from pyomo.core.expr.visitor import identify_variables

from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.expressions import range_of_expression
from lipyomo.solvers.variables import ends_of, is_variable


class FixedInputWarning(UserWarning):
    """Inputs cannot move, and directions along them do not count (or still do)."""


@dataclass(frozen=True)
class Assumption:
    """Bounds of a variable, or of an expression, that a formulation relied on.

    Attributes
    ----------
    source : VarData or expression
    lower, upper : float
        Infinite where nothing was relied on.
    """

    source: Any
    lower: float
    upper: float

    def broken(self) -> str | None:
        """What has become wider since, or None."""
        source = self.source
        if is_variable(source):
            found = [source.bounds]
            if source.fixed and source.value is not None:
                found.append((source.value, source.value))
        else:  # a variable in it may be fixed outside its own bounds
            found = [range_of_expression(source), compute_bounds_on_expr(source)]
        for k, (low, high) in enumerate(starmap(ends_of, found)):
            sizes = [abs(end) for end in (low, high) if math.isfinite(end)]
            room = k * EQUAL * max([1.0, *sizes])  # bounds are to hold as they are
            if not (low >= self.lower - room and high <= self.upper + room):
                now = f"fixed at {low:g}" if low == high else f"now in [{low:g}, {high:g}]"
                built = f"the block was built for [{self.lower:g}, {self.upper:g}]"
                return f"'{source}' is {now}, {built}"
        return None


def can_move(source: Any) -> bool:
    """Whether an input has room: a number, a fixed variable, equal bounds have none."""
    if is_variable(source):
        low, high = ends_of(*source.bounds)
        return not source.fixed and low < high
    if hasattr(source, "is_potentially_variable"):
        return any(map(can_move, identify_variables(source)))
    return False


@dataclass(frozen=True)
class Unmoving:
    """An input along which no direction counts, because it cannot move.

    Attributes
    ----------
    source : VarData, expression or number
    """

    source: Any

    def broken(self) -> str | None:
        """Say that it can move now, or None."""
        if not can_move(self.source):
            return None
        return f"'{self.source}' can move now, and no direction along it is counted"


def enclosing(component: Any) -> Iterator[Any]:
    """The block of a component, the block of that, and so on."""
    block = component.parent_block()
    while block is not None:
        yield block
        block = block.parent_block()


def switched_off(block: Any, seen_from: Any) -> Any:
    """What deactivates a block for one that is active: itself or a block around it, or None.

    A disjunct that was transformed is deactivated, but its constraints live on elsewhere.
    """
    shared = {id(seen_from), *map(id, enclosing(seen_from))}
    for part in (block, *enclosing(block)):
        if id(part) in shared:
            return None
        if not part.active and getattr(part, "transformation_block", None) is None:
            return part
    return None
