"""The stages of a map: bounding cells in batches, then searching those that are left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from lipyomo.analyses.api import solve
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.params import PARAMS, Params
from lipyomo.analyses.maps.relu import PatternCells
from lipyomo.analyses.maps.smooth import SmoothCells
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.parallel import UNKNOWN, Workers
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings

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
class Bounding(ABC):
    """Bounds a quantity of many cells together.

    Parameters
    ----------
    problem : LipschitzProblem
        The problem over a box that contains all cells.
    gap : float
    params : Params, optional
    stop : callable, optional
        Polled regularly.
    scale : float, optional
        The gap is relative to this if a smaller value is attained; not used for constants.
    """

    problem: LipschitzProblem
    gap: float
    params: Params = field(default=PARAMS)
    stop: Callable[[], bool] | None = None
    scale: float = 0.0

    @property
    @abstractmethod
    def able(self) -> bool:
        """Whether cells can be bounded together; otherwise each cell is searched."""

    @property
    @abstractmethod
    def _reduction(self) -> Reduction:
        """The reduction that eliminates frozen inputs."""

    @abstractmethod
    def _bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        """Bound the cells ``low <= x <= high``, both (n, d'), of the reduced network."""

    def __call__(self, job: Job) -> Ends:
        """Bound the cells of a job, given in the problem's inputs."""
        reduced, clock = self._reduction, Clock(job.seconds, self.stop)
        low, high = (np.ascontiguousarray(end[:, reduced.moving]) for end in job[:2])
        ends = self._bounded(low, high, clock)
        points = np.repeat(reduced.values[None], len(low), axis=0)
        points[:, reduced.moving] = ends.points
        return Ends.at(ends.lower, ends.upper, points)


class BoundingConstants(Bounding):
    """Bounds the constants of many cells together."""

    @cached_property
    def _cells(self) -> SmoothCells | PatternCells:
        kind = SmoothCells if self.problem.network.smooth else PatternCells
        return kind(self.problem.reduced.problem, self.gap, self.params)

    @property
    def able(self) -> bool:
        """See `Bounding`."""
        return self._cells.able

    @property
    def _reduction(self) -> Reduction:
        return self.problem.reduced

    def _bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        ends = self._cells.bounded(low, high, clock)
        lower = np.maximum(ends.lower - self.problem.rounding, 0.0)
        return replace(ends, lower=lower, upper=ends.upper + self.problem.underflow)


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
    method : str, optional
        The method for constants.
    """

    problem: LipschitzProblem
    gap: float
    stop: Callable[[], bool] | None = None
    method: str = "auto"

    def __call__(self, job: Job) -> Searched:
        """Solve a job of one cell."""
        settings = Settings(
            time_limit=max(job.seconds, 1e-3), gap=self.gap, workers=1, should_stop=self.stop
        )
        cell = Box(job.low[0], job.high[0])
        found = solve(self.problem.over(cell), self.method, settings=settings)
        place = Point(cell.center) if found.witness is None else found.witness
        return Searched(Ends.of_one(found.lower, found.upper, place), found.status)

    def everywhere(self, seconds: float) -> float:
        """Return a cheap upper bound of all cells together, in a share of so many seconds."""
        domain, share = self.problem.domain, PARAMS.whole * seconds
        job = Job(domain.lower[None], domain.upper[None], share if math.isfinite(share) else 0.0)
        return float(replace(self, stop=None, method="crown")(job).ends.upper[0])


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
