"""The largest sizes of values in cells, for example of residuals, in batches or cell by cell.

First each cell is one box, bounded for both signs together.  If that is not enough, the remaining
signs are bounded on its halves, as in the search (`lipyomo.search.objectives.smooth`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends, Narrowing, Slices
from lipyomo.analyses.maps.smooth import BoxSteps, narrowed_cells
from lipyomo.analyses.maps.stages import Constants, Quantity, Searched
from lipyomo.analyses.questions.several import largest_value
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.base.system.memory import BATCH
from lipyomo.problems.domains import Box
from lipyomo.problems.magnitudes import check_magnitudes
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.confine import confined
from lipyomo.problems.reductions.merge import exactly
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.problems.result import Point
from lipyomo.problems.settings import Settings
from lipyomo.search.objectives.ends import (
    bounded_rows,
    boxes_at_a_time,
    boxes_over,
    ranges_of_values,
    relaxed_forwards,
    values_at,
)
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext, BoxQuestion
from lipyomo.search.spaces.bundle import joined


class Values(Quantity):
    """``sup |f|``, in the norm of the problem's outputs."""

    name = "values"

    @staticmethod
    def refusal(problem: LipschitzProblem) -> str | None:
        """See `Quantity`."""
        if problem.dual_vertices is None:
            norm = problem.output_norm.name
            return f"the dual ball of the norm {norm} has no vertices, or too many"
        return None

    @staticmethod
    def scale_of(problem: LipschitzProblem, cells: Cells) -> float:
        """Return the largest size of a value at the midpoint of any cell."""
        rows = problem.dual_vertices
        assert rows is not None
        step, found = max(1, BATCH // (8 * max(problem.network.sizes))), 0.0
        for at in range(0, len(cells), step):
            values = problem.network.forward(cells.middle[at : at + step]) @ rows.T
            found = max(found, float(np.abs(values).max()))
        return found

    @property
    def able(self) -> bool:
        """See `Quantity`."""
        if not self.problem.network.smooth or self.problem.dual_vertices is None:
            return False
        return bool(self._reduction.moving.any() and self._reduction.network.hidden)

    @cached_property
    def _reduction(self) -> Reduction:
        """The network with all functionals as outputs, without frozen inputs."""
        problem, rows = self.problem, self.problem.dual_vertices
        assert rows is not None
        network = confined(problem.network, problem.domain)
        check_magnitudes(network, problem.domain, rows)
        return exactly(network.with_functional(rows), problem.domain)

    @cached_property
    def _context(self) -> BoxContext:
        reduced, domain = self._reduction, self.problem.domain
        domain = domain if reduced.moving.all() else domain.restrict(reduced.moving)
        return BoxContext.of(
            BoxQuestion(LipschitzProblem(reduced.network, domain, output_norm="linf"))
        )

    def _bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        narrowing = Narrowing(low, high, self.gap, scale=self.scale if self.gap else 0.0)
        context = self._context
        bounded, sizes = partial(bounded_rows, context), partial(_sizes, context)
        steps = BoxSteps(bounded, sizes, boxes_at_a_time(context))
        start = _begun(context, narrowing, (low, high), clock)
        return narrowed_cells(context, steps, narrowing, start, clock, self.effort)

    def _searched(self, cell: Box, seconds: float) -> Searched:
        settings = Settings(time_limit=seconds, workers=1, should_stop=self.stop)
        found = largest_value(self.problem.over(cell), settings)
        place = Point(cell.center) if found.x is None else Point(found.x, rest=found.rest)
        return Searched(Ends.of_one(found.lower, found.upper, place), found.status)

    def everywhere(self, seconds: float) -> float:
        """See `Quantity`; without time, bounds of all functionals share their work."""
        settings = Settings(time_limit=1e-3, workers=1)
        return largest_value(self.problem, settings).upper


def quantity(name: Any) -> type[Quantity]:
    """Return the quantity of this name.

    Raises
    ------
    MethodError
        If there is none.
    """
    for one in (Constants, Values):
        if name == one.name:
            return one
    raise MethodError(f"there is no map of {name!r}.  Remedy: use 'constants' or 'values'")


def _sizes(context: BoxContext, points: FloatArray) -> FloatArray:
    """Bound the largest size of an output at points (N, d) from below, shape (N,)."""
    values, off = values_at(context, points)
    found = np.maximum((np.abs(values) - off).max(axis=1), 0.0)
    return np.asarray(np.where(np.isfinite(found), found, 0.0))


def _begun(
    context: BoxContext, narrowing: Narrowing, ends: tuple[FloatArray, FloatArray], clock: Clock
) -> tuple[Boxes, IntArray]:
    """Bound each cell (n, d) as one box; return the boxes left open, and their cells.

    Cells that are not reached in time have infinite upper ends.
    """
    low, high = ends
    m, size = context.question.problem.network.output_dim, boxes_at_a_time(context)
    every = np.arange(len(low))
    kept = [boxes_over(context, low[:0], high[:0])]
    owners = [every[:0]]
    for part in Slices(size, clock).of(len(low)):
        cell = every[part]
        if clock.expired:
            narrowing.close(cell, np.full(len(cell), np.inf))
            continue
        boxes = boxes_over(context, low[part], high[part])
        known = relaxed_forwards(context, boxes)
        narrowing.attain(cell, _sizes(context, boxes.middle), boxes.middle)
        for k in range(m):
            least, largest = ranges_of_values(known, np.full(len(boxes), k))
            for row, bounds in ((k, largest), (k + m, -least)):
                cutoff = narrowing.cutoff(cell)
                open_ = bounds > cutoff
                narrowing.close(cell[~open_], np.maximum(bounds[~open_], 0.0))
                own = replace(boxes, rows=np.full(len(boxes), row), bounds=bounds)
                kept.append(own.take(open_))
                owners.append(cell[open_])
    boxes, cell = joined(kept), np.concatenate(owners)
    order = np.argsort(cell, kind="stable")
    return boxes.take(order), cell[order]
