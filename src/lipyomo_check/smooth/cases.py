"""Cases of a tree: boxes for one functional each, the first ones, and both halves of others."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo_check.parts import Domain, rational
from lipyomo_check.smooth.balls import alike
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.statement import Statement


class Cases(NamedTuple):
    """Boxes, and the place of each one's functional."""

    boxes: Boxes
    target: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """The number of cases (`len` of a tuple is that of its fields)."""
        return len(self.target)

    def part(self, which: npt.NDArray[np.bool_ | np.int64] | slice) -> Cases:
        """Return some of them."""
        return Cases(self.boxes.part(which), self.target[which])


S = TypeVar("S", bound=Any)
"""The cases waiting on a stack, which have a size and parts."""


def last_of(stack: list[S], most: int) -> tuple[list[S], list[S]]:
    """Return the last ones, at most so many in all, and the stack without them."""
    taken: list[S] = []
    while stack and most:
        *stack, top = stack
        if top.size > most:
            stack.append(top.part(slice(None, -most)))
            top = top.part(slice(-most, None))
        taken.append(top)
        most -= top.size
    return taken, stack


def joined(cases: list[Cases]) -> Cases:
    """Return all of them."""
    boxes = Boxes(*map(np.concatenate, zip(*(own.boxes for own in cases), strict=True)))
    return Cases(boxes, np.concatenate([own.target for own in cases]))


class Twin(NamedTuple):
    """A unit whose pre-activation is an exact multiple of another one's.

    Where the other one is at its break, this one is at `place`; `opposite` if it then falls.
    """

    unit: int
    place: float
    opposite: bool


def first_cases(statement: Statement, phases: int) -> tuple[Array, Cases]:
    """Return 1 for each direction that counts, (D,), and the whole domain, once for each target."""
    box, vertices = statement.domain.box, statement.vertices
    directions = np.eye(statement.inputs)[statement.domain.moving]
    if statement.directions is not None:
        directions = np.eye(len(statement.columns))
    moving = directions.sum(axis=0)
    if statement.input_norm == "l2" or statement.values:
        directions = np.zeros((1, 0))
    elif statement.input_norm == "linf":
        directions = moving[None]
    targets = 1 if vertices is None else len(vertices)
    count = targets * len(directions)
    low, high = np.tile(box.lower, (count, 1)), np.tile(box.upper, (count, 1))
    v, anywhere = np.tile(directions, (targets, 1)), np.full((count, phases), np.inf)
    boxes = Boxes.whole(low, high, -v, v, -anywhere, anywhere)
    if vertices is None and statement.input_norm != "l2":  # v and -v are of the same norm
        boxes.v_low[np.arange(count), np.argmax(v, axis=1)] = 1.0
    return moving, Cases(boxes, np.repeat(np.arange(targets), len(directions)))


def twins_of(chain: Chain, breaks: list[tuple[int, float]]) -> list[list[Twin]]:
    """Return units of a layer whose pre-activations are exact multiples of that of each axis.

    Quotients of exact multiples are equal, and are rounded to the same numbers.
    """
    alike: dict[tuple[int, bytes], list[int]] = {}
    first = {}
    for n, (i, k) in enumerate(chain.broken):
        row = np.append(chain.levels[i].weight[k], chain.levels[i].bias[k])
        filled = np.flatnonzero(row[:-1])
        if filled.size:
            first[n] = row, filled[0]
            alike.setdefault((i, (row / row[filled[0]] + 0.0).tobytes()), []).append(n)
    group = {n: others for others in alike.values() for n in others}
    found: list[list[Twin]] = []
    for n, b in breaks:
        own: list[Twin] = []
        for other in group.get(n, []):
            factor = rational(float(first[other][0][first[other][1]])) / rational(
                float(first[n][0][first[n][1]])
            )
            pairs = zip(first[other][0].tolist(), first[n][0].tolist(), strict=True)
            place = float(Fraction(int(factor.p), int(factor.q)) * Fraction(b))
            exact = rational(place) == factor * rational(b)
            if other != n and exact and all(rational(u) == factor * rational(v) for u, v in pairs):
                own.append(Twin(other, place, factor < 0))
        found.append(own)
    return found


def halves(
    cases: Cases,
    axis: npt.NDArray[np.int64],
    breaks: list[tuple[int, float]],
    twins: list[list[Twin]],
) -> list[Cases]:
    """Return both parts of each case, split along its axis."""
    boxes, target = cases
    if not len(target):
        return []
    d, both = boxes.low.shape[1], boxes.low.shape[1] + boxes.v_low.shape[1]
    row = np.arange(len(axis))
    first = Boxes(*(side.copy() for side in boxes))
    second = Boxes(*(side.copy() for side in boxes))
    which = axis < d
    i, j = row[which], axis[which]
    middle = boxes.low[i, j] + (boxes.high[i, j] - boxes.low[i, j]) / 2.0
    first.high[i, j] = middle
    second.low[i, j] = middle
    which = (axis >= d) & (axis < both)
    i, j = row[which], axis[which] - d
    first.v_high[i, j] = boxes.v_low[i, j]
    second.v_low[i, j] = boxes.v_high[i, j]
    which = axis >= both
    if which.any():
        units = np.array([n for n, _ in breaks])
        values = np.array([b for _, b in breaks])
        i, j = row[which], axis[which] - both
        k, b = units[j], values[j]
        first.z_high[i, k] = np.minimum(boxes.z_high[i, k], b)
        second.z_low[i, k] = np.maximum(boxes.z_low[i, k], b)
        for number in np.unique(j).tolist():
            rows = i[j == number]
            for twin in twins[number]:
                below, above = (second, first) if twin.opposite else (first, second)
                k, b = twin.unit, twin.place
                below.z_high[rows, k] = np.minimum(boxes.z_high[rows, k], b)
                above.z_low[rows, k] = np.maximum(boxes.z_low[rows, k], b)
    return [Cases(first, target), Cases(second, target)]


def are_outside(domain: Domain, low: Array, high: Array) -> npt.NDArray[np.bool_]:
    """Return which boxes surely have no point of the domain's rows or of its ball."""
    found = np.zeros(len(low), dtype=bool)
    room = (low.shape[1] + 8) * ULP
    size = np.maximum(np.abs(low), np.abs(high))
    if domain.A:
        A, b = np.array(domain.A), np.array(domain.b)
        least = low @ np.maximum(A, 0.0).T + high @ np.minimum(A, 0.0).T
        error = room * (size @ np.abs(A).T + np.abs(b))
        found |= (least - error > b).any(axis=1)
    if domain.ball is not None:
        norm, centre, radius = domain.ball
        near = np.clip(centre, low, high)
        gap = np.abs(near - centre)
        gap = np.maximum(gap - ULP * (np.abs(near) + np.abs(centre)), 0.0)
        power = 1 if norm == "l1" else 2
        most = alike(np.array([radius]), low) ** power * (1.0 + 4.0 * room)
        found |= (gap**power).sum(axis=1) * (1.0 - 4.0 * room) > most
    return found
