"""Cells of networks with smooth units: their boxes share batches, each with its cell's cutoff.

The steps are those of the search over boxes (`lipyomo.search.spaces.boxes`).  Each cell is the root
of its own search, whose boxes are bounded together with those of other cells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from itertools import count
from typing import NamedTuple

import numpy as np

from lipyomo.analyses.maps.ends import LEVELS, Ends, Narrowing, Slices
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.rounding import gamma
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.search.spaces.boxes.bound import (
    Bounded,
    bounded,
    framed,
    framed_jacobian,
    with_decided_signs,
)
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.boxes.relaxing.gradient import enclosed
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.split import cut, halved
from lipyomo.search.spaces.boxes.values import steepest_pairs
from lipyomo.search.spaces.bundle import joined


class SmoothCells:
    """Bounds the constants of cells of a network with smooth units.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs, over a box that contains all cells.
    gap : float
    effort : int
        Most boxes for a cell.
    """

    able = True

    def __init__(self, problem: LipschitzProblem, gap: float, effort: int) -> None:
        self._question, self._effort = BoxQuestion(problem, gap), effort

    @cached_property
    def _context(self) -> BoxContext:
        return BoxContext.of(self._question)

    def bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        """Bound the cells ``low <= x <= high``, both (n, d), to the gap.

        Cells that are not reached in time have infinite upper ends.
        """
        context = self._context
        narrowing = Narrowing(low, high, self._question.gap)
        boxes = Boxes.over(context, low, high)
        cell = np.repeat(np.arange(len(low)), len(boxes) // len(low))
        steps = BoxSteps(
            partial(_bounded, context), partial(_attained, context), context.batches.chunk
        )
        return narrowed_cells(context, steps, narrowing, (boxes, cell), clock, self._effort)


class BoxSteps(NamedTuple):
    """The functions that evaluate boxes and points.

    Attributes
    ----------
    bounded : callable
        Bounds boxes, given their cutoffs (N,).
    attained : callable
        Returns lower bounds of the values at points (N, d).
    chunk : int
        Number of boxes that are bounded at a time.
    """

    bounded: Callable[[Boxes, FloatArray], Bounded]
    attained: Callable[[FloatArray], FloatArray]
    chunk: int


def narrowed_cells(
    context: BoxContext,
    steps: BoxSteps,
    narrowing: Narrowing,
    start: tuple[Boxes, IntArray],
    clock: Clock,
    effort: int,
) -> Ends:
    """Bound cells by bounding and bisecting their boxes together.

    Boxes that are not reached in time keep their bounds.

    Parameters
    ----------
    context : BoxContext
    steps : BoxSteps
    narrowing : Narrowing
    start : (Boxes, ndarray of int)
        Initial boxes, and the indices of their cells.
    clock : Clock
    effort : int
        Most boxes for a cell.
    """
    (boxes, cell), slices = start, Slices(steps.chunk, clock)
    for level in count():
        kept, owners = [], []
        narrowing.spend(cell)
        for part in slices.of(len(boxes)):
            some, own = boxes.take(part), cell[part]
            if clock.expired:
                narrowing.close(own, some.bounds)
                continue
            cutoff = narrowing.cutoff(own)
            found = steps.bounded(some, cutoff)
            _evaluate(steps, narrowing, found, own)
            keep = found.boxes.bounds > narrowing.cutoff(own)
            narrowing.close(own[~keep], found.boxes.bounds[~keep])
            if keep.any():  # covers what the cuts remove
                narrowing.close(own[keep], cutoff[keep])
                kept.append(cut(found.take(np.flatnonzero(keep))))
                owners.append(own[keep])
        if not kept:
            break
        boxes, cell = joined(kept), np.concatenate(owners)
        done = boxes.bounds <= narrowing.cutoff(cell)
        done |= (narrowing.spent[cell] >= effort) | (level == LEVELS)
        narrowing.close(cell[done], boxes.bounds[done])
        boxes, cell = boxes.take(~done), cell[~done]
        if not len(boxes):
            break
        children, can = halved(context, boxes)
        narrowing.close(cell[~can], boxes.bounds[~can])
        boxes, cell = children, np.concatenate([cell[can], cell[can]])
    return narrowing.ends


def _bounded(context: BoxContext, boxes: Boxes, cutoffs: FloatArray) -> Bounded:
    """Bound boxes; in those that are whole cells, signs of gradient entries are decided first."""
    if not context.targets.euclidean and np.isinf(boxes.bounds).any():
        boxes = _signed(context, boxes)
    return bounded(context, boxes, cutoffs)


def _signed(context: BoxContext, boxes: Boxes) -> Boxes:
    """Fix entries of the boxes' directions where the gradient has one sign on the whole box."""
    if not (boxes.v_low < boxes.v_high).any():
        return boxes
    still = np.zeros_like(boxes.v_low)
    known = relaxed(context, boxes, (still, still))
    return with_decided_signs(boxes, *framed_jacobian(known, framed(context, boxes)).ends)


def _evaluate(steps: BoxSteps, narrowing: Narrowing, found: Bounded, cell: IntArray) -> None:
    """Enter values at the midpoints of boxes, and where their affine bounds are largest."""
    boxes = found.boxes
    top = np.where(found.x > 0, boxes.high, np.where(found.x < 0, boxes.low, boxes.middle))
    for points in (boxes.middle, top):
        narrowing.attain(cell, steps.attained(points), points)


def _attained(context: BoxContext, points: FloatArray) -> FloatArray:
    """Bound the norms (N,) of the Jacobian at points (N, d) from below.

    The Jacobian is enclosed as on a box of width zero, with both slopes of units that may be at a
    break.  So any full-dimensional set that touches the point contains points near it whose norms
    are at least the bound, up to an arbitrarily small difference.
    """
    boxes = Boxes.over(context, points, points)
    per = len(boxes) // len(points)
    boxes = boxes.take(slice(0, None, per))
    still = np.zeros_like(boxes.v_low)
    known = relaxed(context, boxes, (still, still))
    euclidean = context.targets.whole_ball
    rows = context.head if euclidean else context.rows
    errors = None if euclidean else np.broadcast_to(context.row_errors, (len(points), *rows.shape))
    jacobian = enclosed(known, np.broadcast_to(rows, (len(points), *rows.shape)), errors)
    targets, middle = context.targets, jacobian.middle
    sizes = targets.interval(np.abs(middle)).max(axis=1)
    values = sizes
    if euclidean and not targets.by_column:
        y, v = steepest_pairs(middle, targets.norm)
        values = np.abs(np.einsum("nk,nkd,nd->n", y, middle, v))
    # the norm differs from that of the midpoint by at most the radius's; functionals are rounded
    off = targets.interval(jacobian.radius).max(axis=1) + 8.0 * gamma(sum(middle.shape[1:])) * sizes
    return np.asarray(np.maximum(values - off, 0.0))
