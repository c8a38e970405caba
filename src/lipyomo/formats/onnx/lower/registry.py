"""Registry of the functions that lower operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.modules import import_modules
from lipyomo.formats.onnx.graph import Array, GraphNode
from lipyomo.formats.onnx.refusal import remedy
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import Trace

Value: TypeAlias = "Tensor | Array"
"""A tensor during lowering, affine in the variables, or a constant."""

Lowered: TypeAlias = "Value | Sequence[Value]"


@dataclass(frozen=True, eq=False)
class Call:
    """A node together with its arguments.

    Parameters
    ----------
    node : GraphNode
    arguments : list of Tensor, ndarray or None
        None for omitted inputs.
    trace : Trace
        Creates new units.
    later : callable
        Returns the following nodes.
    input_name : str
        The network's input.
    made : float
        Predicted number of entries of the outputs.
    shapes : sequence of tuple of int, or None
        Shapes of the outputs, if they can be predicted.
    """

    node: GraphNode
    arguments: list[Value | None]
    trace: Trace
    later: Callable[[], Sequence[GraphNode]] = tuple
    input_name: str = ""
    made: float = 0.0
    shapes: Sequence[tuple[int, ...]] | None = None

    def optional(self, position: int) -> Value | None:
        """Return an argument, or None if it is omitted."""
        return self.arguments[position] if position < len(self.arguments) else None

    def value(self, position: int) -> Value:
        """Return an argument that must not be omitted."""
        value = self.optional(position)
        if value is None:
            raise self.node.refuse(f"input {position} is missing", "export the model again")
        return value

    @property
    def remedy(self) -> str:
        """The remedy if this node cannot be lowered."""
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

    def constant(self, position: int, what: str) -> Array:
        """Return an argument that must not depend on the network's input."""
        value = self.value(position)
        if isinstance(value, Tensor):
            raise self.node.refuse(
                f"{what} depends on the network's input, so the node is neither affine nor an "
                "activation of one signal",
                f"export the model so that {what} is constant, or {self.remedy}",
            )
        return value

    def real(self, position: int, what: str) -> FloatArray:
        """Return a constant argument as float64."""
        return np.asarray(self.constant(position, what), dtype=np.float64)

    def integers(self, position: int, key: str, what: str) -> list[int] | None:
        """Return a list of integers: an attribute in old operator sets, an input in new ones."""
        if self.optional(position) is not None:
            return [int(v) for v in np.atleast_1d(self.constant(position, what))]
        return self.node.integers(key)

    def tensor(self, position: int) -> Tensor:
        """Return an argument as a tensor of affine functions, even if it is constant."""
        value = self.value(position)
        return value if isinstance(value, Tensor) else Tensor.constant(value)


Lowering: TypeAlias = Callable[[Call], Lowered]


class Entry(NamedTuple):
    """A registered function.

    Attributes
    ----------
    function : callable
    constants : bool
        Whether it also accepts only constants, which are otherwise folded by the reference
        evaluator.
    factors : sequence of int, or None
        It multiplies signals if all arguments at these positions are signals; None if it never
        does.  Then it is called last, since activations recognised by their formula need no
        products.
    """

    function: Lowering
    constants: bool = False
    factors: Sequence[int] | None = None

    def multiplies(self, arguments: Sequence[Value | None]) -> bool:
        """Return whether it multiplies signals."""
        signals = {k for k, argument in enumerate(arguments) if isinstance(argument, Tensor)}
        return self.factors is not None and bool(signals) and signals.issuperset(self.factors)


_LOWERINGS: dict[tuple[str, str], Entry] = {}


def lowers(
    *op_types: str,
    domain: str = "",
    constants: bool = False,
    factors: Sequence[int] | None = None,
) -> Callable[[Lowering], Lowering]:
    """Register a function for one or more operators.

    Parameters
    ----------
    *op_types : str
    domain : str, optional
        Operator-set domain; empty for the standard operators.
    constants, factors
        See `Entry`.
    """

    def register(function: Lowering) -> Lowering:
        for op_type in op_types:
            _LOWERINGS[domain, op_type] = Entry(function, constants, factors)
        return function

    return register


def multiplies(*op_types: str) -> Callable[[Lowering], Lowering]:
    """Register a function for operators that multiply signals, or have unbounded slopes."""
    return lowers(*op_types, factors=())


@cache
def _read_all() -> None:
    """Import all modules of this package, so that each registers its operators.

    Operators of plain feed-forward networks are registered without this.
    """
    import_modules("lipyomo.formats.onnx.lower")


def lowering_of(node: GraphNode) -> Entry | None:
    """Return the function registered for a node, if any."""
    key = node.domain, node.op_type
    if key not in _LOWERINGS:
        _read_all()
    return _LOWERINGS.get(key)


def supported() -> list[tuple[str, str]]:
    """Return all supported operators, as (domain, operator), sorted."""
    _read_all()
    return sorted(_LOWERINGS)
