"""Expressions that stand for existing variables, under a name of the block's own."""

from __future__ import annotations

from typing import Any

from pyomo.core.base.expression import ExpressionData, IndexedExpression

from lipyomo.blocks.assemble import index_of


class StandInData(ExpressionData):
    """An expression that stands for a variable and passes on what is done to it."""

    __slots__ = ()

    def fix(self, *value: Any) -> None:
        """Fix the variable."""
        self.expr.fix(*value)

    def unfix(self) -> None:
        """Free the variable."""
        self.expr.unfix()

    def setlb(self, value: Any) -> None:
        """Set the variable's lower bound."""
        self.expr.setlb(value)

    def setub(self, value: Any) -> None:
        """Set the variable's upper bound."""
        self.expr.setub(value)

    def set_value(self, value: Any, skip_validation: bool = False) -> None:
        """Set the variable's value; the first call, on construction, says which variable."""
        known = self.expr
        if known is None or hasattr(value, "is_variable_type"):
            super().set_value(value)
        else:
            known.set_value(value, skip_validation)

    @property
    def fixed(self) -> bool:
        """Whether the variable is fixed."""
        return bool(self.expr.fixed)

    @property
    def value(self) -> Any:
        """Value of the variable."""
        return self.expr.value

    @value.setter
    def value(self, value: Any) -> None:
        self.expr.set_value(value)

    @property
    def lb(self) -> Any:
        """Lower bound of the variable."""
        return self.expr.lb

    @property
    def ub(self) -> Any:
        """Upper bound of the variable."""
        return self.expr.ub

    @property
    def bounds(self) -> Any:
        """Bounds of the variable."""
        return self.expr.bounds


class StandIns(IndexedExpression):
    """Indexed `StandInData`."""

    _ComponentDataClass = StandInData


def refer(block: Any, name: str, variables: list[Any], keys: list[Any] | None = None) -> None:
    """Declare ``block.name[j]``, expressions that stand for existing variables.

    (Pyomo's own `Reference` prints memory addresses here, and the MPS writer stumbles over it.)
    """
    expressions = block.component(name)
    index = list(range(len(variables))) if keys is None else keys
    if expressions is None:
        expressions = StandIns(index_of(index))
        block.add_component(name, expressions)
    for key, variable in zip(index, variables, strict=True):
        expressions[key] = variable
