"""Checking the tree that a proof file describes, if asked for once more in ball arithmetic."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from flint import ctx

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import BITS
from lipyomo_check.smooth.balls import in_balls
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.cases import are_outside
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.euclid import across
from lipyomo_check.smooth.halfspaces import HalfSpaces
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.shells import Between
from lipyomo_check.smooth.steps import SHARES, Bytes, Payload, Step, read_step
from lipyomo_check.smooth.strict import ChainInBalls, boxes_in_balls
from lipyomo_check.smooth.tree import Question, Taken
from lipyomo_check.statement import Statement


def walk_tree(statement: Statement, following: Payload, strict: bool) -> Iterator[int]:
    """Return the numbers of cases that are checked together, each once they are checked.

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
    question = Question.of(statement)
    again = _Strict(statement, question) if strict else None

    def decide(taken: Taken) -> Step:
        step = read_step(following, len(taken.may_end), question.sides, question.axes)
        if again is not None:
            again.check(taken, step)
        return step

    return question.walk(decide)


TOGETHER = 32
"""Boxes that are bounded together in Arb."""


class _Strict:
    """Checks in Arb what float64 has found."""

    def __init__(self, statement: Statement, question: Question) -> None:
        self._chain, self._question = ChainInBalls(question.chain, hidden_of(statement)), question
        self._between: Between | None = None
        if question.between is not None:
            shell, chain = question.between.shell, question.between.chain
            self._between = Between(shell, ChainInBalls(chain, shell.layers[:-1]))

    def check(self, taken: Taken, step: Step) -> None:
        """Check cases that end and cuts of the others.

        Raises
        ------
        ProofError
            If Arb does not confirm one.
        """
        ends = step.codes == 0
        cuts = np.zeros((len(ends), step.cuts.shape[1]), dtype=np.uint8)
        cuts[~ends] = step.cuts
        wanted = np.flatnonzero(ends | np.isfinite(taken.least) | cuts.any(axis=1))
        with ctx.workprec(BITS):
            for at in range(0, wanted.size, TOGETHER):
                which = wanted[at : at + TOGETHER]
                if not self._holds(taken.part(which), cuts[which], ends[which]):
                    raise ProofError("ball arithmetic does not confirm a bound")

    def _holds(self, some: Taken, cuts: Bytes, ends: Bools) -> bool:
        """Return whether what is to be small enough on boxes is so."""
        asked, points = self._question, boxes_in_balls(some.cases.boxes)
        off = ends & are_outside(asked.domain, points.low, points.high)
        spaces: list[HalfSpaces] = []
        if self._between is not None and asked.between is not None:
            known = asked.between.bounds(some.cases.boxes)
            spaces, outside = self._between.spaces(points, self._between.bounds(points, known))
            off = off | outside
        boxes, functionals = boxes_in_balls(some.boxes), in_balls(some.functionals)
        found = self._chain.bound(functionals, boxes, spaces, some.bounded)
        off = off | (found.upper == -np.inf)  # no point
        if some.frame is None:
            most = in_balls(some.goals.most)
            return all(
                (off | ~which | (b <= most)).all() for which, b in _left(found, some, cuts, ends)
            )
        frame, scale = some.frame, in_balls(np.ones(len(ends)))
        if frame.y is not None:
            y, scale = _unit(frame.y)
            frame = frame._replace(y=y)
        if frame.single:
            v, size = _unit(some.boxes.v_low)
            boxes, scale = boxes._replace(v_low=v, v_high=v), scale * size
        beside = across(self._chain, functionals, boxes, frame, found, asked.moving)
        for which, bound in _left(found, some, cuts, ends):
            along = np.where(scale == 0.0, 0.0, bound / scale)
            if not (off | ~which | beside.hold(along, asked.upper)).all():
                return False
        return True


def _unit(vectors: Array) -> tuple[Array, Array]:
    """Return vectors of length one, and their lengths; zeros stay zero."""
    exact = in_balls(vectors)
    lengths = [square.sqrt() for square in (exact * exact).sum(axis=1)]
    sizes = in_balls(np.array(lengths, dtype=object))
    return exact / np.where(sizes == 0.0, 1.0, sizes)[:, None], sizes


def _left(found: Bounded, some: Taken, cuts: Bytes, ends: Bools) -> Iterator[tuple[Bools, Array]]:
    """Return what has to be small enough, and on which boxes.

    These are bounds, or bounds of parts that are cut off or outside.  Which parts these are the
    signs in float64 say.
    """
    yield ends, found.upper
    box, x, v = some.cases.boxes, some.bounded.x, some.bounded.v
    d = x.shape[1]
    away = (box.high - box.low) * (cuts[:, :d] / SHARES)
    low = np.where(x > 0, box.low + away, box.low)
    high = np.where(x > 0, box.high, box.high - away)
    sides = (found.x, x, low, high, box.low < box.high, cuts[:, :d])
    flips = (found.v, v, box.v_low, box.v_high, box.v_low < box.v_high, cuts[:, d:])
    for exact, slopes, starts, stops, moves, gone in (sides, flips):
        for j in np.flatnonzero(gone.any(axis=0)).tolist():
            slope = np.maximum(np.where(slopes[:, j] > 0, exact[:, j], -exact[:, j]), 0.0)
            kept = in_balls(stops[:, j]) - starts[:, j]
            yield (gone[:, j] > 0) & moves[:, j], found.upper - slope * kept
    # the function is x . X and the rest of it; outside x . X < least
    rest, lower, upper = found.x - x, in_balls(box.low), in_balls(box.high)
    more = np.maximum(rest * lower, rest * upper)
    less = np.maximum(found.x * lower, found.x * upper)
    yield ~ends & np.isfinite(some.least), found.upper + some.least + (more - less).sum(axis=1)
