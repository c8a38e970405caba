"""Expressions that stand for existing variables, under a name of the block's own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import wraps
from operator import attrgetter
from typing import Any

from pyomo.core.base.expression import ExpressionData, IndexedExpression
from pyomo.core.base.var import VarData

from lipyomo.blocks.assemble import declared


def _method(name: str) -> Any:
    """A method of the variable."""

    @wraps(getattr(VarData, name))
    def passed_on(self: Any, *arguments: Any) -> Any:
        return getattr(self.expr, name)(*arguments)

    return passed_on


class StandInData(ExpressionData):
    """An expression that stands for a variable and passes on what is done to it."""

    __slots__ = ()

    fix, unfix = _method("fix"), _method("unfix")
    setlb, setub = _method("setlb"), _method("setub")
    fixed = property(attrgetter("expr.fixed"))
    lb, ub = property(attrgetter("expr.lb")), property(attrgetter("expr.ub"))
    bounds = property(attrgetter("expr.bounds"))

    def set_value(self, value: Any, skip_validation: bool = False) -> None:
        """Set the variable's value; the first call, on construction, says which variable."""
        known = self.expr
        if known is None or hasattr(value, "is_variable_type"):
            super().set_value(value)
        else:
            known.set_value(value, skip_validation)

    @property
    def value(self) -> Any:
        """Value of the variable."""
        return self.expr.value

    @value.setter
    def value(self, value: Any) -> None:
        self.expr.set_value(value)


class StandIns(IndexedExpression):
    """Indexed `StandInData`."""

    _ComponentDataClass = StandInData


def refer(block: Any, name: str, variables: list[Any], keys: Iterable[Any]) -> None:
    """Declare ``block.name[j]``, expressions that stand for existing variables.

    (Pyomo's own `Reference` prints memory addresses here, and the MPS writer stumbles over it.)

    Parameters
    ----------
    block : BlockData
    name : str
    variables : list of VarData
    keys : iterable
    """
    index = list(keys)
    expressions = declared(block, name, StandIns, index)
    for key, variable in zip(index, variables, strict=True):
        expressions[key] = variable
