"""The tree of a proof about pairs: boxes, each with all pairs that are not yet shown to be small.

A pair is a functional of the outputs, of either sign, and a direction.  On each box the bounds of
its pairs are computed together; those that are at most the upper end are done with, for all that
comes of the box.  A box ends when none is left, or when it has no points; else it is split in two,
along an input or at the kink of a unit.  Which pairs are left the file does not say.

Boxes wait on a stack; the last ones are taken together, as in `lipyomo_check.smooth.tree`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from lipyomo_check.errors import ProofError
from lipyomo_check.pairs.ranges import LEFT, OPEN, RIGHT, Kinks, Sides, Units, units_on
from lipyomo_check.pairs.tangents import Tangents
from lipyomo_check.parts import Domain
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.cases import Twin, are_outside, last_of, twins_of
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.kind import Bools
from lipyomo_check.smooth.levels import Indices, hidden_of, levels_of
from lipyomo_check.smooth.steps import Codes
from lipyomo_check.statement import Statement

MOST_PAIRS = 1 << 12
"""The most pairs of a direction and a signed functional: every box has a bit for each."""

MOST = 64
"""Number of boxes that are bounded together, so that their arrays fit into the cache."""

SINGLE = 2
"""Directions of a box, up to which each has rows of its own."""

TOGETHER = 1 << 11
"""Pairs whose functionals are taken backwards together."""


class Waiting(NamedTuple):
    """Boxes with N entries each: ends (N, d), sides of units (N, K), pairs that are left (N, F, q).

    The points of a box are those at which units are on the sides that it says.
    """

    low: Array
    high: Array
    sides: Sides
    live: Bools

    @property
    def size(self) -> int:
        """The number of boxes (`len` of a tuple is that of its fields)."""
        return len(self.low)

    def part(self, which: Bools | Indices | slice) -> Waiting:
        """Return some of them."""
        return Waiting(self.low[which], self.high[which], self.sides[which], self.live[which])


@dataclass(frozen=True, eq=False)
class Bounded:
    """Boxes with their known bounds.

    Attributes
    ----------
    boxes : Waiting
        With the sides that ranges decide, and the pairs that are left.
    units : list of Units
    """

    boxes: Waiting
    units: list[Units]


Decide = Callable[[Waiting, Bounded], Codes]
"""Returns the codes of boxes, given the boxes as they waited and with their bounds."""


@dataclass(frozen=True, eq=False)
class Asked:
    """The claim to be proved, in arrays.

    Attributes
    ----------
    hidden : list of Kinks
    head : ndarray, shape (m, n)
    gamma : float
        What terms err by.
    most : int
        Boxes that are taken together.
    twins : dict of int to list of Twin
        What else is split with a unit.
    directions : ndarray, shape (q, D)
        One of each pair +-v.
    functionals : ndarray, shape (F, m)
        Of either sign.
    domain : Domain
    upper : float
    """

    hidden: list[Kinks]
    head: Array
    gamma: float
    most: int
    twins: dict[int, list[Twin]]
    directions: Array
    functionals: Array
    domain: Domain
    upper: float

    @classmethod
    def of(cls, statement: Statement) -> Asked:
        """Make the question from a statement.

        Raises
        ------
        ProofError
            If there is no proof of this kind for it.
        """
        domain, vertices = statement.domain, statement.vertices
        if not domain.is_bounded:
            raise ProofError("the domain has no finite box")
        if statement.values or any(layer.curves for layer in statement.hidden):
            raise ProofError("a proof of this format is about constants and two-slope units")
        if vertices is None or statement.input_norm == "l2":
            raise ProofError("there is no proof of this format for Euclidean norms")
        levels, head = levels_of(statement)
        largest = max(map(abs, [*domain.box.lower, *domain.box.upper]))
        chain = Chain(levels, head, largest, domain)
        starts = np.cumsum([0, *(len(level.weight) for level in levels)])
        units = [int(starts[i]) + k for i, k in chain.broken]
        all_twins = twins_of(chain, [(n, 0.0) for n in range(len(units))])
        twins = {
            unit: [twin._replace(unit=units[twin.unit]) for twin in own]
            for unit, own in zip(units, all_twins, strict=True)
        }
        hidden = [
            Kinks(level, np.array(layer.left), np.array(layer.right))
            for level, layer in zip(levels, hidden_of(statement), strict=True)
        ]
        directions = _directions(statement, len(vertices))
        functionals = np.array([*vertices, *(-np.array(vertices))], dtype=np.float64)
        known = chain.gamma, min(chain.most, MOST), twins, directions, functionals
        return cls(hidden, head, *known, domain, statement.upper)

    @property
    def axes(self) -> int:
        """Ways to split a box: along its inputs, then at its units' kinks."""
        return len(self.domain.sides) + sum(len(kinks.left) for kinks in self.hidden)

    @property
    def first(self) -> Waiting:
        """The whole domain, with all pairs."""
        box = self.domain.box
        sides = [np.where(kinks.two, OPEN, RIGHT) for kinks in self.hidden]
        all_sides = np.concatenate([np.zeros(0), *sides]).astype(np.int8)
        live = np.ones((1, len(self.functionals), len(self.directions)), dtype=bool)
        return Waiting(np.array([box.lower]), np.array([box.upper]), all_sides[None], live)

    def walk(self, decide: Decide) -> Iterator[int]:
        """Go through the tree, whose boxes `decide` splits; yield the number of finished ones.

        Raises
        ------
        ProofError
            If a box ends of which a pair is left.
        """
        stack = [self.first]
        while stack:
            last, stack = last_of(stack, self.most)
            boxes = Waiting(*map(np.concatenate, zip(*last, strict=True)))
            bounded = self.bounded(boxes)
            codes = decide(boxes, bounded)
            split = codes > 0
            if bounded.boxes.live[~split].any():
                raise ProofError("a box ends whose bound is larger than the upper end")
            if split.any():
                left = bounded.boxes.part(split)
                stack += self._parts(left, codes[split].astype(np.int64) - 1)
            yield len(codes)

    def bounded(self, boxes: Waiting) -> Bounded:
        """Return boxes with the bounds of their pairs."""
        units = units_on(self.hidden, boxes.low, boxes.high, boxes.sides, self.gamma)
        known = [boxes.sides[:, :0], *(own.sides for own in units)]
        off = are_outside(self.domain, boxes.low, boxes.high)
        for own in units:
            off = off | (own.low > own.high).any(axis=1)
        live = boxes.live & ~off[:, None, None]
        several = np.flatnonzero(live.any(axis=1).sum(axis=1) > SINGLE)
        if several.size:
            self._together(units, live, several)
        wanted = np.asarray(live.any(axis=1))
        wanted[wanted.sum(axis=1) > SINGLE] = False
        box, direction = np.nonzero(wanted)
        if box.size:
            self._single(units, live, box, direction)
        found = boxes._replace(sides=np.concatenate(known, axis=1), live=live)
        return Bounded(found, units)

    def _together(self, units: list[Units], live: Bools, boxes: Indices) -> None:
        """Drop pairs of boxes in place, all of whose directions are bounded together."""
        own = [each.take(boxes) for each in units]
        wanted = live[boxes].any(axis=1)
        columns = np.argsort(~wanted, axis=1, kind="stable")[:, : wanted.sum(axis=1).max()]
        along = np.swapaxes(self.directions[columns], 1, 2)
        tangents = Tangents.of(self.hidden, own, along, self.gamma, single=False)
        some = np.take_along_axis(live[boxes], columns[:, None], axis=2)
        box, row, column = np.nonzero(some)
        for at in range(0, len(box), TOGETHER):
            k, f, j = (part[at : at + TOGETHER] for part in (box, row, column))
            start = self.functionals[f][:, None]
            upper = self.above(tangents.take(k, j), start)[:, 0]
            live[boxes[k], f, columns[k, j]] = ~(upper <= self.upper)

    def _single(self, units: list[Units], live: Bools, box: Indices, direction: Indices) -> None:
        """Drop pairs in place, all functionals of a box and a direction together."""
        own = [each.take(box) for each in units]
        along = self.directions[direction][:, :, None]
        tangents = Tangents.of(self.hidden, own, along, self.gamma, single=True)
        upper = self.above(tangents, self.functionals[None])
        live[box, :, direction] &= ~(upper <= self.upper)

    def above(self, tangents: Tangents, functionals: Array) -> Array:
        """Return upper bounds of functionals (N, r, m), along a direction a box."""
        size = tangents.paces[-1][:, :, 0] @ np.abs(self.head).T
        lost = self.gamma * np.matmul(np.abs(functionals), size[:, :, None])[:, :, 0]
        rows = functionals @ self.head
        found: Array = tangents.above(self.hidden, rows, self.gamma) + 2.0 * lost
        return found

    def _parts(self, boxes: Waiting, axis: Indices) -> list[Waiting]:
        """Return both parts of each box, split along its input or at the kink of its unit."""
        d, row = boxes.low.shape[1], np.arange(len(axis))
        every = np.arange(boxes.size)
        first, second = boxes.part(every), boxes.part(every)  # copies
        which = axis < d
        i, j = row[which], axis[which]
        middle = boxes.low[i, j] + (boxes.high[i, j] - boxes.low[i, j]) / 2.0
        first.high[i, j] = middle
        second.low[i, j] = middle
        for i, k in zip(row[~which].tolist(), (axis[~which] - d).tolist(), strict=True):
            if k not in self.twins:
                raise ProofError("a unit is split that has one slope")
            first.sides[i, k], second.sides[i, k] = LEFT, RIGHT
            for twin in self.twins[k]:
                left, right = (second, first) if twin.opposite else (first, second)
                left.sides[i, twin.unit], right.sides[i, twin.unit] = LEFT, RIGHT
        return [first, second]


def _directions(statement: Statement, functionals: int) -> Array:
    """Return vertices of the input ball, one of each pair.

    Raises
    ------
    ProofError
        If they are too many.
    """
    single = np.eye(statement.inputs)[statement.domain.moving]
    if statement.directions is not None:
        single = np.eye(len(statement.columns))
    count = len(single)
    if statement.input_norm == "linf":
        count = 1 << max(count - 1, 0)
    if 2 * functionals * count > MOST_PAIRS:
        raise ProofError("too many pairs of a direction and a functional")
    if statement.input_norm == "l1" or not len(single):
        return single if len(single) else np.zeros((1, single.shape[1]))
    signs = [(1.0, *rest) for rest in product((1.0, -1.0), repeat=len(single) - 1)]
    return np.array(signs) @ single
