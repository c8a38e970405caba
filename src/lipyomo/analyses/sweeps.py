"""Sweeps: many problems on many cores or on a cluster, with results as they finish.

A sweep runs one method on a family of problems (all balls around a test set, all snapshots of a
training run).  If a problem fails, its error is returned in place of its result.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import merge
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from lipyomo.analyses.api import chosen_settings, solve
from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.ends import Ends
from lipyomo.analyses.maps.pieces import INPUTS
from lipyomo.analyses.maps.stages import JOB, Constants, Job, shares
from lipyomo.base.arguments import instance
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError, MethodError, ProblemError
from lipyomo.base.system.parallel import Workers
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.methods.registry import get_method, was_interrupted
from lipyomo.primal.regions.witness import make_witness
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Result, frame_of
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Settings, SettingsKeywords, Work, takes

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)

EXACT = "bnb"
"""The method to which results of problems that are bounded together are attributed."""


@dataclass(frozen=True)
class SweepRow:
    """The result of one problem of a sweep.

    Attributes
    ----------
    index : int
        Position of the problem in the sweep.
    result : Result or None
    error : str or None
        The message of the error, if the problem failed.
    """

    index: int
    result: Result | None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the row's values for a table, None for missing ones."""
        found = None if self.result is None else self.result.to_dict()
        names = ("lower", "upper", "status", "method", "gap", "nodes", "seconds")
        values = {name: None if found is None else found[name] for name in names}
        return {"index": self.index, **values, "error": self.error}


class Sweep(Iterator[SweepRow]):
    """The rows of a sweep, as they finish; see `sweep`."""

    def __init__(self, rows: Iterator[SweepRow]) -> None:
        self._rows = rows
        self._given = 0

    def __repr__(self) -> str:
        given = f"{self._given} row{'s' * (self._given != 1)} given so far"
        return f"Sweep({given}; iterate over it, or call to_frame)"

    @with_one_blas_thread
    def __next__(self) -> SweepRow:
        row = next(self._rows)
        self._given += 1
        return row

    def to_frame(self) -> DataFrame:
        """Return all remaining rows as a pandas frame, in the order of the problems.

        Raises
        ------
        LipyomoError
            If pandas is not installed.
        """
        return frame_of(row.to_dict() for row in sorted(self, key=lambda row: row.index))


@takes(SettingsKeywords)
def sweep(
    problems: Iterable[LipschitzProblem],
    method: str = "auto",
    settings: Settings | None = None,
    **changes: Unpack[SettingsKeywords],
) -> Sweep:
    """Solve many problems in parallel processes; return rows as they finish.

    Parameters
    ----------
    problems : iterable of LipschitzProblem
        Consumed as workers become free, so a generator of a million is fine.  Boxes in a list that
        share their network and norms are first bounded together, like the cells of a map
        (`lipyomo.analyses.maps`).
    method : str, optional
        See `lipyomo.solve`.
    settings : Settings, optional
        The time limit applies to each problem.  By default each problem runs on one worker.
        Callbacks (`progress`, `should_stop`) do not reach other processes and are dropped.
    **changes
        Fields of `Settings` to set, such as ``time_limit=60``.  `workers`, `executor` and `dask`
        determine where the problems run: by default on one process per core; with one worker, in
        this process.  An executor is, for example, ``distributed.Client(...).get_executor()`` or
        ``mpi4py.futures.MPIPoolExecutor()``.

    Returns
    -------
    Sweep
        An iterator of `SweepRow` in the order of completion (with one worker, of the problems);
        ``to_frame()`` collects them.  Ctrl-C ends it, after the interval of the current problem.

    Raises
    ------
    LipyomoError
        If the number of workers is not positive, a setting is wrong, or the solver cannot be used.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[1.0, 2.0]]])
    >>> boxes = [lipyomo.Box(-1.0, 0.0, 1), lipyomo.Box(0.0, 1.0, 1)]
    >>> problems = [lipyomo.LipschitzProblem(network, box) for box in boxes]
    >>> [row.result.lower for row in lipyomo.sweep(problems, workers=1, time_limit=10)]
    [2.0, 1.0]
    """
    instance(problems, Iterable, "the problems", ProblemError, "a sequence of LipschitzProblem")
    if method != "auto":
        get_method(method)
    own: dict[str, Any] = {**changes}
    places = {name: own.pop(name, None) for name in ("workers", "executor", "dask")}
    chosen = chosen_settings(settings, own)
    if chosen.checkpoint is not None:
        raise MethodError("a checkpoint is that of one problem, and a sweep has many")
    if chosen.solver != "auto":
        from lipyomo.solvers.registry import get_solver

        get_solver(chosen.solver, chosen.solvers_file)
    chosen = replace(chosen, progress=None, should_stop=None, workers=chosen.workers or 1)
    known = len(problems) if isinstance(problems, list | tuple) else None
    context = Work(time_limit=chosen.time_limit, **places).pool(known)
    return Sweep(_rows(context, problems, method, chosen))


def _rows(
    context: Workers[Any, Any],
    problems: Iterable[LipschitzProblem],
    method: str,
    settings: Settings,
) -> Iterator[SweepRow]:
    solved = partial(solve, method=method, settings=settings)
    with context as pool:
        found: Iterator[tuple[int, Result | LipyomoError]] = pool.run(solved, problems)
        if _joins(method, settings) and isinstance(problems, Sequence):
            found = _in_batches(problems, solved, pool, settings)
        for index, result in found:
            row = (
                SweepRow(index, result)
                if isinstance(result, Result)
                else SweepRow(index, None, str(result))
            )
            logger.info("problem %d: %s", index, row.error or f"{row.result!r}".splitlines()[0])
            yield row
            if row.result is not None and was_interrupted(row.result):
                raise KeyboardInterrupt  # the method has caught it and returned its interval


def _in_batches(
    problems: Sequence[LipschitzProblem],
    solved: Callable[[LipschitzProblem], Result],
    pool: Workers[Any, Any],
    settings: Settings,
) -> Iterator[tuple[int, Result | LipyomoError]]:
    """Solve problems, after bounding them together if possible."""
    for first in range(0, len(problems), JOB):
        some = problems[first : first + JOB]
        known = _answered_together(some, settings, pool)
        left = [k for k in range(len(some)) if k not in known]
        one_by_one = (
            (left[place], result) for place, result in pool.run(solved, [some[k] for k in left])
        )
        for k, result in merge(sorted(known.items()), one_by_one, key=itemgetter(0)):
            yield first + k, result


def _joins(method: str, settings: Settings) -> bool:
    """Return whether a method and settings allow problems to be bounded together."""
    plain = settings.solver == "auto" and settings.formulation == "auto" and not settings.options
    return method in ("auto", EXACT) and plain and not settings.rational and not settings.verbose


def _answered_together(
    problems: Sequence[LipschitzProblem], settings: Settings, pool: Workers[Any, Any]
) -> dict[int, Result]:
    """Solve problems in batches; return the results of those that this closes, by index.

    Parameters
    ----------
    problems : sequence of LipschitzProblem
    settings : Settings
        The time limit applies to each problem.
    pool : Workers
        Runs the batches.

    Returns
    -------
    dict of int to Result
        Results, each with a witness that is verified like that of any other result.
    """
    found: dict[int, Result] = {}
    for places in _alike(problems):
        low, high = (
            np.array([getattr(problems[k].domain, end) for k in places])
            for end in ("lower", "upper")
        )
        try:
            over = problems[places[0]].over(Cells(low, high).hull)
            bounding = Constants(over, settings.gap)
            if Constants.refusal(over) is not None or not bounding.able:
                continue
        except LipyomoError:  # solving each problem alone raises it again
            continue
        same = ((low == high) == over.domain.frozen).all(axis=1)
        chosen, low, high = np.asarray(places)[same], low[same], high[same]
        parts = shares(len(chosen), pool.count)
        jobs = (Job(low[part], high[part], settings.time_limit) for part in parts)
        for number, ends in pool.run(bounding.bound, jobs):
            if isinstance(ends, Ends):
                own = chosen[parts[number]]
                found |= dict(_closed(problems, own.tolist(), ends, settings))
    return found


def _alike(problems: Sequence[LipschitzProblem]) -> list[list[int]]:
    """Group the indices of problems on bounded boxes by network and norms, two or more each."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for k, problem in enumerate(problems):
        domain, norm = problem.domain, problem.output_norm
        few = problem.network.input_dim <= INPUTS
        if few and domain.is_box and domain.is_bounded and problem.directions is None:
            norm_key = id(norm) if norm.kind == "linear" else norm.name
            c = None if problem.functional is None else problem.functional.tobytes()
            key = id(problem.network), problem.norm, norm_key if c is None else c
            groups.setdefault(key, []).append(k)
    return [places for places in groups.values() if len(places) > 1]


def _closed(
    problems: Sequence[LipschitzProblem], places: Sequence[int], ends: Ends, settings: Settings
) -> Iterator[tuple[int, Result]]:
    """Generate the results of the problems whose gaps are closed by verified witnesses."""
    for k, upper, point in zip(places, ends.upper.tolist(), ends.points, strict=True):
        problem = problems[k]
        run = Run(problem, settings, EXACT, clock=Clock())
        run.raise_lower(make_witness(problem, point))
        run.drop_upper(upper)
        if run.witness is not None and run.closed:
            run.warn(*problem.notes)
            run.count(1)
            run.record(together=len(places))
            yield k, run.result(done=True)
