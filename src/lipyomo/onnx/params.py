"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Bytes and operations were measured; they decide what is refused before it is allocated.

    Attributes
    ----------
    moved_bytes : int
        Of an entry of a tensor that depends on the input, while it is moved (`Expand`).
    output_bytes : int
        Of an output until it has been compared with onnxruntime at all points.
    unit_bytes : int
        Of a two-slope unit until it is a row of a layer.
    node_bytes : int
        Of a node while it is imported.
    memory_share : float
        Of the machine's memory, that an import may take where no limit was given.
    operations : float
        Multiplications in a node: some ten seconds.
    moves : int
        Multiplications that take as long as moving such an entry: half a microsecond.
    small : int
        Entries of a constant that shape inference may look at, and up to which a weight is dense.
    sparse_below : float
        Density under which a larger weight is kept sparse.
    unknown : float
        Outputs of nodes whose shapes depend on values (NonZero, Unique, ...) are no larger than
        this many times their inputs.
    deepest : int
        Graphs inside graphs, and local functions that call local functions: beyond, Python's own
        stack would end.
    safety : float
        Of the comparison with onnxruntime: factor on the first-order estimate of its rounding (sums
        of many terms, other orders of summation).
    cancelled : float
        Factor on the largest tensor of the graph: affine maps in a row may cancel when composed.
    by_node : float
        Likewise, on the estimate with a layer for every node: nothing is left out of it.
    held_entries : int
        Of Jacobians, at once.
    """

    moved_bytes: int = 140
    output_bytes: int = 1000
    unit_bytes: int = 1500
    node_bytes: int = 20_000
    memory_share: float = 0.5
    operations: float = 2e10
    moves: int = 1000
    small: int = 4096
    sparse_below: float = 0.2
    unknown: float = 8.0
    deepest: int = 50
    safety: float = 64.0
    cancelled: float = 8.0
    by_node: float = 4.0
    held_entries: int = 4_000_000


PARAMS = Params()
