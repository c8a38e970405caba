"""Which function lowers which operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.modules import import_modules
from lipyomo.formats.onnx.graph import Array, GraphNode
from lipyomo.formats.onnx.refusal import remedy
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import Trace

Value: TypeAlias = "Tensor | Array"
"""A tensor during lowering: affine in the variables, or a constant."""

Lowered: TypeAlias = "Value | Sequence[Value]"


@dataclass(frozen=True, eq=False)
class Call:
    """A node together with its arguments.

    Parameters
    ----------
    node : GraphNode
    arguments : list of Tensor, ndarray or None
        None where an optional input is omitted.
    trace : Trace
        Makes new units.
    later : callable
        The nodes that follow.
    input_name : str
        The network's input.
    made : float
        Entries of the outputs, as far as they are known before.
    """

    node: GraphNode
    arguments: list[Value | None]
    trace: Trace
    later: Callable[[], Sequence[GraphNode]] = tuple
    input_name: str = ""
    made: float = 0.0

    def optional(self, position: int) -> Value | None:
        """An argument, or None if it is omitted."""
        return self.arguments[position] if position < len(self.arguments) else None

    def value(self, position: int) -> Value:
        """An argument that must be there."""
        value = self.optional(position)
        if value is None:
            raise self.node.refuse(f"input {position} is missing", "export the model again")
        return value

    @property
    def remedy(self) -> str:
        """What to do if this node does not lower."""
        tensor = next(
            name
            for name, value in zip(self.node.inputs, self.arguments, strict=True)
            if isinstance(value, Tensor)
        )
        return remedy(self.node.op_type, tensor, self.later(), self.input_name)

    @property
    def values(self) -> list[Value]:
        """All arguments, none of which may be omitted."""
        return [self.value(position) for position in range(len(self.arguments))]

    def refuse_product(self, a: Value, b: Value) -> None:
        """Refuse two factors that both depend on the network's input."""
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            raise self.node.refuse(
                "both factors depend on the network's input, and the product is no activation of "
                "one signal (such as SiLU, GELU or Mish)",
                self.remedy,
            )

    def constant(self, position: int, what: str) -> Array:
        """An argument that must not depend on the network's input."""
        value = self.value(position)
        if isinstance(value, Tensor):
            raise self.node.refuse(
                f"{what} depends on the network's input, so the node is neither affine nor an "
                "activation of one signal",
                f"export the model so that {what} is constant, or {self.remedy}",
            )
        return value

    def real(self, position: int, what: str) -> FloatArray:
        """A constant argument as float64."""
        return np.asarray(self.constant(position, what), dtype=np.float64)

    def integers(self, position: int, key: str, what: str) -> list[int] | None:
        """A list of integers that is an attribute in old operator sets and an input in new ones."""
        if self.optional(position) is not None:
            return [int(v) for v in np.atleast_1d(self.constant(position, what))]
        return self.node.integers(key)

    def tensor(self, position: int) -> Tensor:
        """An argument as a tensor of affine functions, even if it is constant."""
        value = self.value(position)
        return value if isinstance(value, Tensor) else Tensor.constant(value)


Lowering: TypeAlias = Callable[[Call], Lowered]

_LOWERINGS: dict[tuple[str, str], Lowering] = {}
_TAKES_CONSTANTS: set[tuple[str, str]] = set()
_MULTIPLIES: dict[tuple[str, str], Lowering] = {}


def lowers(*op_types: str, domain: str = "", constants: bool = False) -> Callable[..., Lowering]:
    """Register a function for one or more operators.

    Parameters
    ----------
    *op_types : str
    domain : str, optional
        Operator-set domain; empty for the standard operators.
    constants : bool, optional
        Whether the function also computes with constants only; otherwise constants are folded
        elsewhere.
    """

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            _LOWERINGS[domain, op_type] = function
            if constants:
                _TAKES_CONSTANTS.add((domain, op_type))
        return function

    return register


def multiplies(*op_types: str, domain: str = "") -> Callable[[Lowering], Lowering]:
    """Register a function for operators, or for arguments of them, that are refused otherwise.

    It is asked last: what a formula says to be an activation needs no products.
    """

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            _MULTIPLIES[domain, op_type] = function
        return function

    return register


@cache
def _read_all() -> None:
    """Import all modules of this package, so that each has registered its operators.

    Operators of plain feed-forward networks are registered without it.
    """
    import_modules("lipyomo.formats.onnx.lower")


def product_lowering_of(node: GraphNode) -> Lowering | None:
    """The function that multiplies signals for a node, if there is one."""
    _read_all()
    return _MULTIPLIES.get((node.domain, node.op_type))


def lowering_of(node: GraphNode) -> Lowering | None:
    """The function for a node, if there is one."""
    key = node.domain, node.op_type
    if key not in _LOWERINGS:
        _read_all()
    return _LOWERINGS.get(key)


def takes_constants(node: GraphNode) -> bool:
    """Whether the function for this node also handles constants only."""
    return lowering_of(node) is not None and (node.domain, node.op_type) in _TAKES_CONSTANTS


def supported() -> list[tuple[str, str]]:
    """All operators that lower, as (domain, operator), sorted."""
    _read_all()
    return sorted({*_LOWERINGS, *_MULTIPLIES})
