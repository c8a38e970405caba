"""Keys of a block's inputs and outputs, and expressions that refer to variables by these keys.

If ``m.x`` over ``["angle", "vel"]`` is given, the keys are ``gradient["vel"]`` and
``jacobian["y", "vel"]``.  For a list, or a variable over integer positions, they are the indices of
the network's tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from pyomo.core.base.expression import ExpressionData, IndexedExpression

from lipyomo.blocks.assemble import declared


def entries_of(part: Any) -> dict[Any, Any]:
    """Return the current content of a slice, by the indices at its wildcards."""
    found = [(unpacked(key), item) for key, item in part.wildcard_items()]
    entries = dict(found)
    return entries if len(entries) == len(found) else dict(enumerate(item for _, item in found))


@dataclass(frozen=True)
class Labels:
    """The ordered keys of inputs or outputs, and alternative keys accepted in arguments.

    Attributes
    ----------
    keys : list
    others : list
        Alternative keys of the same entries: tensor indices if `keys` are the user's names, the
        user's integer keys if `keys` are tensor indices.
    """

    keys: list[Any]
    others: list[Any] = field(default_factory=list)

    def __deepcopy__(self, memo: dict[int, Any]) -> Labels:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, given: Sequence[Any] | None, shape: tuple[int, ...]) -> Labels:
        """Return labels for the given keys of a tensor's entries; None stands for its indices.

        These are integers for a vector, otherwise tuples in row-major order.
        """
        plain: list[Any] = list(range(shape[0]) if len(shape) == 1 else np.ndindex(*shape))
        own = plain if given is None or len(set(given)) < len(given) else list(given)
        keys, others = (plain, own) if _are_positions(own) else (own, plain)
        return cls(keys, [] if set(keys) & set(others) else others)

    @cached_property
    def places(self) -> dict[Any, int]:
        """Position by key or alternative key."""
        return {name: j for names in (self.others, self.keys) for j, name in enumerate(names)}

    def place(self, name: Any) -> int | None:
        """Return the position of an entry by (alternative) key or number; None if unknown."""
        try:
            found = self.places.get(name)
        except TypeError:  # not hashable
            return None
        if found is None and _is_whole(name) and not any(map(_is_whole, self.keys)):
            found = int(name) if 0 <= name < len(self.keys) else None
        return found


def _is_whole(key: Any) -> bool:
    return isinstance(key, int | np.integer) and not isinstance(key, bool)


def _are_positions(keys: list[Any]) -> bool:
    """Return whether keys are the indices of an array, in row-major order."""
    rows = [key if isinstance(key, tuple) else (key,) for key in keys]
    if len({len(row) for row in rows}) != 1 or not all(_is_whole(n) for row in rows for n in row):
        return False
    return rows == list(np.ndindex(*(max(column) + 1 for column in zip(*rows, strict=True))))


def joined_keys(first: Any, last: Any) -> tuple[Any, ...]:
    """Join two keys to a flat tuple, as Pyomo does for products of sets."""
    parts = [key if isinstance(key, tuple) else (key,) for key in (first, last)]
    return (*parts[0], *parts[1])


def unpacked(parts: Any) -> Any:
    """Return the only entry of a tuple of length one; other keys unchanged."""
    return parts[0] if isinstance(parts, tuple) and len(parts) == 1 else parts


_PASSED_ON = ("fix", "unfix", "fixed", "setlb", "setub", "lb", "ub", "bounds")


class StandInData(ExpressionData):
    """An expression that refers to a variable and delegates methods and attributes to it."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in _PASSED_ON:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return getattr(self.expr, name)

    def set_value(self, value: Any, skip_validation: bool = False) -> None:
        """Set the variable's value; the first call, on construction, sets the variable."""
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
    """Declare ``block.name[j]``, expressions that refer to existing variables.

    (Pyomo's `Reference` is not used: it prints memory addresses, and the MPS writer fails on it.)

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
