"""The stages of a map: bounding cells in batches, then searching those that are left."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from lipyomo.analyses.api import solve
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.measure import PatternNorms
from lipyomo.analyses.maps.params import PARAMS, Params
from lipyomo.analyses.maps.pieces import Pieces
from lipyomo.analyses.maps.relu import bound_cells
from lipyomo.analyses.maps.smooth import bound_smooth_cells
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.parallel import UNKNOWN, Workers
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings
from lipyomo.search.spaces.boxes.context import Context, Question

Value = TypeVar("Value")


class Job(NamedTuple):
    """Some cells, and the time limit for them.

    Attributes
    ----------
    low, high : ndarray, shape (n, d)
    seconds : float
    """

    low: FloatArray
    high: FloatArray
    seconds: float = math.inf


@dataclass(frozen=True, eq=False)
class Bounding:
    """Bounds the constants of many cells together.

    Parameters
    ----------
    problem : LipschitzProblem
        The problem over a box that contains all cells.
    gap : float
    params : Params, optional
    stop : callable, optional
        Polled regularly.
    scale : float, optional
        Not used for constants.
    """

    problem: LipschitzProblem
    gap: float
    params: Params = field(default=PARAMS)
    stop: Callable[[], bool] | None = None
    scale: float = 0.0

    @cached_property
    def _pieces(self) -> Pieces:
        return Pieces(self._norms, self.gap, self.params)

    @cached_property
    def _norms(self) -> PatternNorms:
        return PatternNorms(self.problem.reduced.problem)

    @cached_property
    def _context(self) -> Context:
        return Context.of(Question(self.problem.reduced.problem, self.gap))

    @property
    def able(self) -> bool:
        """Whether cells with the problem's norms can be bounded together."""
        return self.problem.network.smooth or self._norms.able(self.params.inputs)

    def __call__(self, job: Job) -> Ends:
        """Bound the cells of a job, given in the problem's inputs."""
        reduced, clock = self.problem.reduced, Clock(job.seconds, self.stop)
        low, high = (np.ascontiguousarray(end[:, reduced.moving]) for end in job[:2])
        if self.problem.network.smooth:
            ends = bound_smooth_cells(self._context, low, high, clock, self.params)
        else:
            ends = bound_cells(self._pieces, low, high, clock)
        points = np.repeat(reduced.values[None], len(low), axis=0)
        points[:, reduced.moving] = ends.points
        rests = np.zeros(points.shape)
        rests[:, reduced.moving] = ends.rests
        lower = np.maximum(ends.lower - self.problem.rounding, 0.0)
        return Ends(lower, ends.upper + self.problem.underflow, points, rests)


@dataclass(frozen=True, eq=False)
class Searched:
    """The result of searching a cell.

    Attributes
    ----------
    ends : Ends
        The ends of one cell.
    status : Status
    """

    ends: Ends
    status: Status


@dataclass(frozen=True, eq=False)
class Searching:
    """Solves the problem on a single cell.

    Parameters
    ----------
    problem : LipschitzProblem
        The problem, over any domain.
    gap : float
    stop : callable, optional
    """

    problem: LipschitzProblem
    gap: float
    stop: Callable[[], bool] | None = None

    def __call__(self, job: Job) -> Searched:
        """Run the default method on a job of one cell."""
        settings = Settings(
            time_limit=max(job.seconds, 1e-3), gap=self.gap, workers=1, should_stop=self.stop
        )
        cell = Box(job.low[0], job.high[0])
        found = solve(self.problem.over(cell), settings=settings)
        place = Point(cell.center) if found.witness is None else found.witness
        return Searched(Ends.of_one(found.lower, found.upper, place), found.status)


def answers(
    pool: Workers[Job, Value], work: Callable[[Job], Value], jobs: Iterable[Job]
) -> Iterator[tuple[int, Value]]:
    """Generate the indices of jobs and their results as they finish; raise the error of a job."""
    for number, found in pool.run(work, jobs):
        if isinstance(found, LipyomoError):
            raise found
        yield number, found


def shares(params: Params, cells: int, workers: int) -> list[slice]:
    """Divide cells into jobs for `workers` workers (0: unknown).

    A job is half of a worker's share of the remaining cells.  Large jobs cost less per cell, and
    with small ones at the end all workers finish at about the same time.
    """
    found, at = [], 0
    while at < cells:
        part = params.job if workers == 1 else (cells - at) // (2 * (workers or UNKNOWN))
        end = min(at + min(max(part, params.least), params.job), cells)
        found.append(slice(at, end))
        at = end
    return found
