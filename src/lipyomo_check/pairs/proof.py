"""Checking the tree of boxes with pairs that a proof file describes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from flint import ctx

from lipyomo_check.errors import ProofError
from lipyomo_check.pairs.ranges import OPEN, Kinks
from lipyomo_check.pairs.tree import Asked, Bounded, Waiting
from lipyomo_check.parts import BITS
from lipyomo_check.smooth.balls import NOTHING, in_balls
from lipyomo_check.smooth.steps import Codes, Payload
from lipyomo_check.smooth.strict import level_in_balls
from lipyomo_check.statement import Statement


def walk_pairs(statement: Statement, following: Payload, strict: bool) -> Iterator[int]:
    """Return the numbers of boxes that are checked together, each once they are checked.

    Parameters
    ----------
    statement : Statement
    following : Payload
    strict : bool
        Whether to compute every bound once more, in Arb.

    Raises
    ------
    ProofError
        If it does not prove the upper end.
    """
    asked = Asked.of(statement)
    again = in_arb(asked) if strict else None

    def decide(boxes: Waiting, bounded: Bounded) -> Codes:
        if again is not None:
            confirm(again, boxes, bounded.boxes)
        return following.codes(boxes.size, asked.axes)

    return asked.walk(decide)


def in_arb(asked: Asked) -> Asked:
    """Return the question in ball arithmetic: bounds rest on no float64 arithmetic then."""
    hidden = [
        Kinks(level_in_balls(kinks.level), in_balls(kinks.left), in_balls(kinks.right))
        for kinks in asked.hidden
    ]
    return replace(asked, hidden=hidden, head=in_balls(asked.head), gamma=NOTHING)


def confirm(asked: Asked, before: Waiting, after: Waiting) -> None:
    """Check what float64 has found of boxes: sides of units, and pairs that are proved.

    Raises
    ------
    ProofError
        If Arb does not confirm it.
    """
    with ctx.workprec(BITS):
        exact = before._replace(low=in_balls(before.low), high=in_balls(before.high))
        own = asked.bounded(exact).boxes
        some = own.live.any(axis=(1, 2))  # of others nothing is left, perhaps as they have no point
        new = (before.sides == OPEN) & (after.sides != OPEN)
        if (new & (own.sides != after.sides))[some].any():
            raise ProofError("ball arithmetic does not confirm the side of a unit")
        if (own.live & ~after.live).any():
            raise ProofError("ball arithmetic does not confirm a bound")
