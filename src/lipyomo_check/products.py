"""Products of two pre-activations, as files state them: pairs of squares with opposite columns.

If units p and q of a layer are squares, and their columns of the next weight are opposite, what
these add is c (p^2 - q^2) = c (p + q) (p - q): a product of two pre-activations.  A network that is
written with such pairs computes the same as without; what is known of each function is not.
"""

from __future__ import annotations

from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import listed, wholes

SQUARE = "square"

UNBOUNDED = {SQUARE, "sqrt", "rsqrt", "reciprocal", "exp", "log"}
"""Names of units whose slopes have no bounds; powers, ``pow(3.0)`` and the like, are more."""

Pairs = list[tuple[int, int]]
Curves = list[tuple[str, list[int]]]


def have_no_slopes(curves: Curves) -> list[int]:
    """Units whose slopes have no bounds: what a file says of these does not matter."""
    return [k for name, own in curves if name in UNBOUNDED or name.startswith("pow(") for k in own]


def read_pairs(record: Any, curves: Curves, units: int) -> Pairs:
    """The pairs of a layer.

    Raises
    ------
    ProofError
        If they are no pairs of different squares.
    """
    squares = {k for name, own in curves if name == SQUARE for k in own}
    found: Pairs = []
    for item in listed(record, "the products"):
        p, q = wholes(item, "a unit of a product", units - 1, 2)
        if p == q or not {p, q} <= squares:
            raise ProofError("a product is made of other units than squares, or of one twice")
        squares -= {p, q}
        found.append((p, q))
    return found


def check_opposite(pairs: Pairs, rows: list[list[float]]) -> None:
    """Check that the columns of pairs are opposite in the next weight.

    Raises
    ------
    ProofError
        If some are not.
    """
    if any(row[p] != -row[q] for row in rows for p, q in pairs):
        raise ProofError("the squares of a product do not enter with opposite signs")
