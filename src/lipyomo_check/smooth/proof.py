"""Checking the tree that a proof file describes, if asked for once more in ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite

import numpy as np
from flint import arb

from lipyomo_check.errors import ProofError
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.levels import hidden_of
from lipyomo_check.smooth.steps import SHARES, Bytes, Payload, Step, read_step, total_of
from lipyomo_check.smooth.strict import StrictChain
from lipyomo_check.smooth.strict_euclid import across
from lipyomo_check.smooth.strict_layers import Known
from lipyomo_check.smooth.strict_spaces import Affine, Space, at_least, is_outside
from lipyomo_check.smooth.tree import Question, Taken
from lipyomo_check.statement import Statement


def check_tree(
    statement: Statement,
    payload: bytes,
    progress: Callable[[int], None] | None = None,
    strict: bool = False,
) -> int:
    """Check the tree of a proof; returns how many cases it has.

    Parameters
    ----------
    statement : Statement
    payload : bytes
    progress : callable, optional
        Called with the number of cases that are checked.
    strict : bool, optional
        Compute every bound once more, in Arb.

    Raises
    ------
    ProofError
        If it does not prove the upper end.
    """
    question = Question.of(statement)
    again = _Strict(statement, question) if strict else None
    following = Payload(payload)

    def decide(taken: Taken) -> Step:
        step = read_step(following, len(taken.may_end), question.sides, question.axes)
        if again is not None:
            again.check(taken, step)
        return step

    total = total_of(question.walk(decide), progress)
    following.end()
    return total


class _Strict:
    """Checks in Arb what float64 has found."""

    def __init__(self, statement: Statement, question: Question) -> None:
        self._chain, self._question = StrictChain(question.chain, hidden_of(statement)), question
        self._level: StrictChain | None = None
        if question.between is not None:
            assert statement.shell is not None
            self._level = StrictChain(question.between.chain, statement.shell.layers[:-1])

    def check(self, taken: Taken, step: Step) -> None:
        """Check cases that end and cuts of the others.

        Raises
        ------
        ProofError
            If Arb does not confirm one.
        """
        inner = -1
        for k, code in enumerate(step.codes.tolist()):
            one = taken.part(slice(k, k + 1))
            cuts = None
            if code:
                inner += 1
                cuts = step.cuts[inner]
                if not isfinite(float(one.least[0])) and not cuts.any():
                    continue
            elif is_outside(self._question.domain, one.boxes.low[0], one.boxes.high[0]):
                continue
            spaces, off = self._of_shell(one.cases.boxes)
            if off:
                continue
            found, layers = self._chain.bound(one.functionals[0], one.boxes, one.bounded, spaces)
            if not found.x:  # no point
                continue
            left = list(_left(found, one, cuts))
            if not self._are_small(left, one, layers):
                raise ProofError("ball arithmetic does not confirm a bound")

    def _are_small(self, left: list[arb], one: Taken, layers: list[Known]) -> bool:
        """Return whether bounds along a box's directions are small enough."""
        upper, moving = self._question.upper, self._question.moving
        if one.frame is None:
            most = arb(float(one.goals.most[0]))
            return all(bound <= most for bound in left)
        functional = one.functionals[0]
        found = across(self._chain, functional, one.boxes, one.frame, layers, moving)
        return all(found.hold(bound, upper) for bound in left)

    def _of_shell(self, box: Boxes) -> tuple[list[Space], bool]:
        """Return half-spaces of the shell's ends, and whether a box surely has no point of it."""
        between, level = self._question.between, self._level
        if between is None or level is None:
            return [], False
        own, spaces, off = between.without_phases(box), list[Space](), False
        for sign, least in between.ends:
            row = np.array([sign])
            found, _ = level.bound(row, own, between.chain.bound(row[None], own))
            off = off or bool(found.upper < arb(least))
            spaces.append(partial(at_least, found, arb(least), own))
        return spaces, off


def _left(found: Affine, one: Taken, cuts: Bytes | None) -> Iterator[arb]:
    """Return what has to be small enough: a bound, or bounds of parts cut off or outside.

    Which parts these are the signs in float64 say.
    """
    if cuts is None:
        yield found.upper
        return
    box, x, v = one.cases.boxes, one.bounded.x[0], one.bounded.v[0]
    d = len(found.x)
    for j, share in enumerate(cuts[:d].tolist()):
        low, high = float(box.low[0, j]), float(box.high[0, j])
        if share and low < high:
            away = (high - low) * (share / SHARES)
            if x[j] > 0:
                kept, slope = arb(high) - arb(low + away), found.x[j]
            else:
                kept, slope = arb(high - away) - arb(low), -found.x[j]
            yield found.upper - slope.max(arb(0)) * kept
    for j, gone in enumerate(cuts[d:].tolist()):
        low, high = float(box.v_low[0, j]), float(box.v_high[0, j])
        if gone and low < high:
            slope = found.v[j] if v[j] > 0 else -found.v[j]
            yield found.upper - slope.max(arb(0)) * (arb(high) - arb(low))
    least = float(one.least[0])
    if not isfinite(least):
        return
    outside = found.upper + least  # the function is x . X and the rest of it; here x . X < least
    ends = box.low[0].tolist(), box.high[0].tolist()
    for slope, X, low, high in zip(found.x, x.tolist(), *ends, strict=True):
        rest = slope - X
        outside += (rest * low).max(rest * high) - (slope * low).max(slope * high)
    yield outside
