"""Checking the tree of boxes with pairs that a proof file describes."""

from __future__ import annotations

from collections.abc import Callable

from lipyomo_check.pairs.strict import StrictPairs
from lipyomo_check.pairs.tree import Asked, Bounded, Waiting
from lipyomo_check.smooth.steps import Codes, Payload, total_of
from lipyomo_check.statement import Statement


def check_pairs(
    statement: Statement,
    payload: bytes,
    progress: Callable[[int], None] | None = None,
    strict: bool = False,
) -> int:
    """Check the tree of a proof; returns how many boxes it has.

    Parameters
    ----------
    statement : Statement
    payload : bytes
    progress : callable, optional
        Called with the number of boxes that are checked.
    strict : bool, optional
        Compute every bound once more, in Arb.

    Raises
    ------
    ProofError
        If it does not prove the upper end.
    """
    asked, following = Asked.of(statement), Payload(payload)
    again = StrictPairs(asked) if strict else None

    def decide(boxes: Waiting, bounded: Bounded) -> Codes:
        if again is not None:
            again.check(boxes, bounded.boxes)
        return following.codes(boxes.size, asked.axes)

    total = total_of(asked.walk(decide), progress)
    following.end()
    return total
