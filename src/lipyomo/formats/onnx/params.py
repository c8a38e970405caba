"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.params import PARAMS as PACE


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Bytes and operations were measured; they decide what is refused before it is allocated.

    Attributes
    ----------
    moved_bytes : int
        Of an entry of a tensor that depends on the input, while it is moved (`Expand`).
    unit_bytes : int
        Of a two-slope unit until it is a row of a layer, and of an output until it is compared.
    node_bytes : int
        Of a node while it is imported.
    memory_share : float
        Of the machine's memory, that an import may take where no limit was given.
    operations : float
        Multiplications in a node: a second of dense products, some ten of what nodes do.
    moves : int
        Multiplications that take as long as moving such an entry: half a microsecond.
    unknown : float
        Outputs of nodes whose shapes depend on values (NonZero, Unique, ...) are no larger than
        this many times their inputs.
    safety : float
        Of the comparison with onnxruntime: factor on the first-order estimate of its rounding (sums
        of many terms, other orders of summation).
    complete : float
        Likewise, on estimates that leave nothing out: the largest tensor of the graph, which may
        cancel when affine maps are composed, and the first order with a layer for every node.
    """

    moved_bytes: int = 140
    unit_bytes: int = 1500
    node_bytes: int = 20_000
    memory_share: float = 0.5
    operations: float = PACE.rate
    moves: int = 1000
    unknown: float = 8.0
    safety: float = 64.0
    complete: float = 4.0


PARAMS = Params()
