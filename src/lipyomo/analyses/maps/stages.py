"""The stages of a map: bounding cells in batches, then searching those that are left."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np

from lipyomo.analyses.api import solve
from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.relu import PatternCells
from lipyomo.analyses.maps.smooth import SmoothCells
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.base.system.parallel import UNKNOWN, Workers
from lipyomo.methods.registry import get_method
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.problems.result import Point, Status
from lipyomo.problems.settings import Settings

Value = TypeVar("Value")

EFFORT = 400
"""Most boxes for a cell, before branch and bound decides it."""

JOB = 4096
"""Most cells that are bounded together: less overhead per cell against order and memory."""

LEAST = 64
"""Least cells in a job if there are several workers, and of initial boxes if there is one cell."""

WHOLE = 0.25
"""Share of the time limit for a bound of all cells together, for those not reached in time."""


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


class Searched(NamedTuple):
    """The result of searching a cell: its ends, and how the search ended."""

    ends: Ends
    status: Status


@dataclass(frozen=True, eq=False)
class Quantity(ABC):
    """The quantity of a map, on cells in the domain of a problem.

    Parameters
    ----------
    problem : LipschitzProblem
        The problem over a box that contains all cells.
    gap : float
    effort : int, optional
        Most boxes for a cell that is bounded with others.
    stop : callable, optional
        Polled regularly.
    scale : float, optional
        The gap is relative to this if a smaller value is attained; not used for constants.
    """

    name: ClassVar[str]

    problem: LipschitzProblem
    gap: float
    effort: int = EFFORT
    stop: Callable[[], bool] | None = None
    scale: float = 0.0

    @staticmethod
    @abstractmethod
    def refusal(problem: LipschitzProblem) -> str | None:
        """Return why no map of a problem can be made, or None."""

    @staticmethod
    def scale_of(problem: LipschitzProblem, cells: Cells) -> float:
        """Return the size to which gaps are relative if ends are less."""
        return 0.0

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

    @abstractmethod
    def _searched(self, cell: Box, seconds: float) -> Searched:
        """Search one cell."""

    def bound(self, job: Job) -> Ends:
        """Bound the cells of a job together, given in the problem's inputs."""
        reduced, clock = self._reduction, Clock(job.seconds, self.stop)
        low, high = (np.ascontiguousarray(end[:, reduced.moving]) for end in job[:2])
        ends = self._bounded(low, high, clock)
        points = np.repeat(reduced.values[None], len(low), axis=0)
        points[:, reduced.moving] = ends.points
        return Ends.at(ends.lower, ends.upper, points)

    def search(self, job: Job) -> Searched:
        """Search the only cell of a job."""
        return self._searched(Box(job.low[0], job.high[0]), max(job.seconds, 1e-3))

    @abstractmethod
    def everywhere(self, seconds: float) -> float:
        """Return a cheap upper bound of all cells together, in a share of so many seconds."""


class Constants(Quantity):
    """Lipschitz constants."""

    name = "constants"

    @staticmethod
    def refusal(problem: LipschitzProblem) -> str | None:
        """See `Quantity`."""
        return get_method("bnb").refusal(problem)

    @cached_property
    def _cells(self) -> SmoothCells | PatternCells:
        kind = SmoothCells if self.problem.network.smooth else PatternCells
        return kind(self.problem.reduced.problem, self.gap, self.effort)

    @property
    def able(self) -> bool:
        """See `Quantity`."""
        return self._cells.able

    @property
    def _reduction(self) -> Reduction:
        return self.problem.reduced

    def _bounded(self, low: FloatArray, high: FloatArray, clock: Clock) -> Ends:
        ends = self._cells.bounded(low, high, clock)
        lower = np.maximum(ends.lower - self.problem.rounding, 0.0)
        return replace(ends, lower=lower, upper=ends.upper + self.problem.underflow)

    def _searched(self, cell: Box, seconds: float) -> Searched:
        settings = Settings(time_limit=seconds, gap=self.gap, workers=1, should_stop=self.stop)
        found = solve(self.problem.over(cell), settings=settings)
        place = Point(cell.center) if found.witness is None else found.witness
        return Searched(Ends.of_one(found.lower, found.upper, place), found.status)

    def everywhere(self, seconds: float) -> float:
        """See `Quantity`."""
        share = max(WHOLE * seconds, 1e-3) if math.isfinite(seconds) else 1e-3
        settings = Settings(time_limit=share, gap=self.gap, workers=1)
        return solve(self.problem, "crown", settings).upper


def answers(
    pool: Workers[Job, Value], work: Callable[[Job], Value], jobs: Iterable[Job]
) -> Iterator[tuple[int, Value]]:
    """Generate the indices of jobs and their results as they finish; raise the error of a job."""
    for number, found in pool.run(work, jobs):
        if isinstance(found, LipyomoError):
            raise found
        yield number, found


def shares(cells: int, workers: int) -> list[slice]:
    """Divide cells into jobs for `workers` workers (0: unknown).

    A job is half of a worker's share of the remaining cells.  Large jobs cost less per cell, and
    with small ones at the end all workers finish at about the same time.
    """
    found, at = [], 0
    while at < cells:
        part = JOB if workers == 1 else (cells - at) // (2 * (workers or UNKNOWN))
        end = min(at + min(max(part, LEAST), JOB), cells)
        found.append(slice(at, end))
        at = end
    return found
