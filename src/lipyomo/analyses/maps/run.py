"""`map_cells`: batches of cells go through the stages, in one or several processes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.maps.cells import Cells, cells_of, grid
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.result import CellMap, StatusArray, statuses
from lipyomo.analyses.maps.stages import Constants, Job, Quantity, Searched, answers, shares
from lipyomo.analyses.maps.store import finished_map, store_of
from lipyomo.analyses.maps.values import quantity
from lipyomo.base.arguments import instance
from lipyomo.base.arrays import IntArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError, ProblemError
from lipyomo.base.system.parallel import Workers
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, ProgressCallback, Status
from lipyomo.problems.settings import Work, WorkKeywords, changed, check_gap, takes

logger = logging.getLogger(__name__)

Enter = Callable[[IntArray, Ends, StatusArray], None]
"""Takes cells (k,) that are done, their ends and their statuses."""


class MapKeywords(WorkKeywords, total=False):
    """Fields of `MapSettings` as keywords."""

    gap: float
    progress: ProgressCallback | None
    should_stop: Callable[[], bool] | None


@dataclass(frozen=True, kw_only=True)
class MapSettings(Work):
    """Settings of a map.

    Attributes
    ----------
    gap : float
        Relative gap at which a cell counts as done; 0 asks for exact constants.
    time_limit : float
        Seconds for the whole map, which then has the intervals known so far.
    workers : int or None
        Number of processes; 1 by default, None for one per core.
    executor : concurrent.futures.Executor, optional
        Runs the batches of cells instead.
    dask : str, optional
        Address of a dask scheduler that runs them instead.
    progress : callable, optional
        Called with `Progress` after each batch: ends of the largest constant, and cells as nodes.
    should_stop : callable, optional
        Polled; True ends the map with the intervals known so far.
    """

    gap: float = 0.0
    time_limit: float = math.inf
    workers: int | None = 1
    progress: ProgressCallback | None = None
    should_stop: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gap(self.gap)

    @property
    def limited(self) -> bool:
        """Whether the map may end before all cells are done."""
        return math.isfinite(self.time_limit) or self.should_stop is not None


@takes(MapKeywords)
def map_cells(
    problem: LipschitzProblem,
    cells: Cells | Iterable[Box] | npt.ArrayLike | str | PathLike[str] | int | tuple[int, ...],
    settings: MapSettings | None = None,
    out: str | PathLike[str] | None = None,
    *,
    of: str = Constants.name,
    **changes: Unpack[MapKeywords],
) -> CellMap:
    """Compute the local Lipschitz constants of many cells, or the largest sizes of values.

    Parameters
    ----------
    problem : LipschitzProblem
        Network and norms.  Its domain is only used if `cells` are counts.
    cells : Cells, list of Box, array_like, path, int or tuple of int
        A grid (`lipyomo.analyses.maps.grid`); any boxes, also from a file
        (`lipyomo.analyses.maps.cells_of`); or numbers of cells along the first inputs of the
        problem's box.
    settings : MapSettings, optional
    out : path, optional
        A ``.npz``, ``.csv`` or ``.jsonl`` file to which cells are written as they are done.  Cells
        that it contains already, from the same map, are not computed again.
    of : {'constants', 'values'}, optional
        With ``values``, the map is of ``sup |f(x)|`` in the output norm, as by
        `lipyomo.largest_value`, for example of a `lipyomo.networks.residual`.  The fields named
        constants then have these sizes.
    **changes
        Fields of `MapSettings`, such as ``gap=0.01`` or ``time_limit=60``.

    Returns
    -------
    CellMap

    Raises
    ------
    LipyomoError
        If cells and network do not match, the problem is refused, or the file cannot be used.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[1.0, 2.0]]])
    >>> problem = lipyomo.LipschitzProblem(network, lipyomo.Box(-1.0, 1.0, 1))
    >>> found = lipyomo.map_cells(problem, 2)
    >>> found.constant_upper.tolist(), found.status.tolist()
    ([2.0, 1.0], ['exact', 'exact'])
    >>> found = lipyomo.map_cells(problem, 2, of="values")
    >>> found.constant_upper.tolist()
    [2.0, 1.0]
    """
    remedy = "give a LipschitzProblem, made of a network and a domain"
    instance(problem, LipschitzProblem, "the problem", ProblemError, remedy)
    chosen = changed(MapSettings, settings, changes)
    whole = cells_for(problem, cells)
    clock = Clock(chosen.time_limit, chosen.should_stop)
    kind = quantity(of)
    over = over_all(problem, whole, kind)
    state = _State(over, whole, chosen, clock, kind)
    with store_of(out, over, whole, chosen.gap, chosen.time_limit, kind) as store:
        state.take(store.known)
        state.run(store.add)
        return finished_map(store, state.found())


def cells_for(problem: LipschitzProblem, cells: Any) -> Cells:
    """Convert the argument `cells` of `map_cells` to cells.

    Raises
    ------
    LipyomoError
        If they do not match the problem.
    """
    counts = isinstance(cells, int | np.integer) and not isinstance(cells, bool)
    counts |= isinstance(cells, tuple) and all(isinstance(n, int | np.integer) for n in cells)
    if counts:
        if not (problem.domain.is_box and problem.domain.is_bounded):
            raise ProblemError("only a bounded box can be divided into cells.  Remedy: give a Box")
        return grid(problem.domain.lower, problem.domain.upper, cells)
    found = cells_of(cells)
    if found.dimension != problem.network.input_dim:
        raise ProblemError(
            f"the cells have {found.dimension} inputs, the network takes "
            f"{problem.network.input_dim}"
        )
    return found


def over_all(problem: LipschitzProblem, cells: Cells, kind: type[Quantity]) -> LipschitzProblem:
    """Return the problem over a box that contains all cells.

    Raises
    ------
    MethodError
        If there are no maps of such problems.
    """
    widths = cells.upper - cells.lower
    widths = np.where(widths > 0, widths, np.inf).min(axis=1)
    problem.over(cells.box(int(widths.argmin())))  # the thinnest cell must be a valid domain
    over = problem.over(cells.hull)
    reason = kind.refusal(over)
    if reason is not None:
        raise MethodError(f"a map of this problem cannot be made: {reason}")
    return over


class _State:
    """The intervals of all cells, as they become known."""

    def __init__(
        self,
        problem: LipschitzProblem,
        cells: Cells,
        settings: MapSettings,
        clock: Clock,
        kind: type[Quantity],
    ) -> None:
        count = len(cells)
        self._problem, self._cells, self._kind = problem, cells, kind
        self._settings, self._clock = settings, clock
        self._lower, self._upper = np.zeros(count), np.full(count, np.inf)
        self._points, self._rests = cells.middle, np.zeros(cells.middle.shape)
        self._ended: dict[int, Status] = {}
        self._done, self._whole = 0, math.inf
        self._scale = kind.scale_of(problem, cells)

    # -- what is known -----------------------------------------------------------------------------

    def take(self, known: tuple[IntArray, Ends]) -> None:
        """Enter cells (k,) that are done already."""
        which, ends = known
        self._enter(which, ends)
        self._done = len(which)

    def _enter(self, which: IntArray, ends: Ends) -> None:
        better = ends.lower > self._lower[which]
        self._points[which[better]] = ends.points[better]
        self._rests[which[better]] = ends.rests[better]
        self._lower[which] = np.maximum(self._lower[which], ends.lower)
        self._upper[which] = np.minimum(self._upper[which], ends.upper)

    def _status(self, which: IntArray | slice, otherwise: Status) -> StatusArray:
        ends = self._lower[which], self._upper[which]
        return statuses(*ends, self._settings.gap, otherwise, self._scale)

    def _open(self, which: IntArray) -> IntArray:
        """Return those of some cells that are not done."""
        left = self._status(which, Status.TIME_LIMIT) == Status.TIME_LIMIT.value
        return np.asarray(which[left])

    def _ends(self, which: IntArray) -> Ends:
        return Ends(self._lower[which], self._upper[which], self._points[which], self._rests[which])

    def found(self) -> CellMap:
        """Return the map with the current intervals."""
        end = Status.INTERRUPTED if self._clock.interrupted else Status.TIME_LIMIT
        status = self._status(slice(None), end)
        for index, said in self._ended.items():
            # what is exact for values of this size need not be so for one that is nearly zero
            if status[index] == end.value and said in (Status.EXACT, Status.PRECISION):
                status[index] = said.value
        return CellMap(
            self._problem,
            self._cells,
            self._lower,
            self._upper,
            status,
            self._points,
            self._clock.seconds,
            self._settings.gap,
            witness_rest=self._rests,
            of=self._kind.name,
            scale=self._scale,
            whole=self._whole,
        )

    # -- the stages --------------------------------------------------------------------------------

    def run(self, enter: Enter) -> None:
        """Bound all cells that are not done, then search those that stay open.

        Parameters
        ----------
        enter : callable
            Called with cells (k,), their final ends and their statuses.
        """
        settings = self._settings
        left = self._open(np.arange(len(self._cells)))
        with settings.pool(len(left)) as pool:
            own = pool.own and pool.count == 1
            stop = settings.should_stop if own else None
            asked = self._kind(self._problem, settings.gap, stop=stop, scale=self._scale)
            if left.size and settings.limited:
                self._whole = asked.everywhere(self._clock.left)
                self._upper[left] = np.minimum(self._upper[left], self._whole)
            if asked.able:
                # cells that fix inputs which others do not fix are searched
                fixes = self._cells.lower[left] == self._cells.upper[left]
                some = left[~(fixes & ~self._problem.domain.frozen).any(axis=1)]
                batches = [some[part] for part in shares(len(some), pool.count)]
                self._stage(pool, asked.bound, batches, enter, "all at once")
            left = self._open(left)
            left = left[np.argsort(-self._upper[left], kind="stable")]
            batches = [left[k : k + 1] for k in range(len(left))]
            self._stage(pool, asked.search, batches, enter, "search")

    def _stage(
        self,
        pool: Workers[Job, Any],
        work: Callable[[Job], Ends | Searched],
        batches: list[IntArray],
        enter: Enter,
        message: str,
    ) -> None:
        """Work on batches of cells, and enter those that are done, or were searched."""
        for number, found in answers(pool, work, self._jobs(batches, max(pool.count, 1))):
            which = batches[number]
            ends, end = found if isinstance(found, Searched) else (found, None)
            self._enter(which, ends)
            status = self._status(which, Status.TIME_LIMIT)
            ended = status != Status.TIME_LIMIT.value
            if end is not None:
                self._ended[int(which[0])] = end
                ended[:] = True
            done = which[ended]
            enter(done, self._ends(done), status[ended])
            self._report(len(done), message)

    def _jobs(self, batches: list[IntArray], together: int) -> Iterator[Job]:
        """Generate jobs while there is time; `together` of them run at once with equal shares."""
        cells, clock = self._cells, self._clock
        for number, which in enumerate(batches):
            if clock.expired:
                return
            seconds = clock.left * together / (len(batches) - number)
            yield Job(cells.lower[which], cells.upper[which], min(seconds, clock.left))

    def _report(self, count: int, message: str) -> None:
        self._done += count
        said = f"{message}, {self._done} of {len(self._cells)} cells"
        lower, upper = float(self._lower.max()), float(self._upper.max())
        report = Progress(self._clock.seconds, lower, upper, self._done, said)
        logger.info("%s", report)
        if self._settings.progress is not None:
            self._settings.progress(report)
