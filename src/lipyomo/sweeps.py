"""Many problems on many cores, or on a cluster: the same answers, in the order they finish.

A sweep runs one method on a family of problems (all balls around a test set, all snapshots of a
training run).  One problem that fails spoils nothing: its error comes back in its place.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lipyomo.api import chosen_settings, solve
from lipyomo.arguments import instance
from lipyomo.errors import MethodError, ProblemError
from lipyomo.methods.registry import get_method
from lipyomo.parallel import Workers
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result, frame_of
from lipyomo.settings import Settings

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SweepRow:
    """One problem's answer.

    Attributes
    ----------
    index : int
        Position of the problem in the sweep.
    result : Result or None
    error : str or None
        The sentence of the error that the problem caused, if it did.
    """

    index: int
    result: Result | None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The row's numbers for a table; None where there is none."""
        found = None if self.result is None else self.result.to_dict()
        names = ("lower", "upper", "status", "method", "gap", "nodes", "seconds")
        values = {name: None if found is None else found[name] for name in names}
        return {"index": self.index, **values, "error": self.error}


class Sweep(Iterator[SweepRow]):
    """The rows of a sweep, as they finish; see `sweep`."""

    def __init__(self, rows: Iterator[SweepRow]) -> None:
        self._rows = rows

    def __next__(self) -> SweepRow:
        return next(self._rows)

    def to_frame(self) -> DataFrame:
        """All rows that are left as a pandas frame, in the order of the problems.

        Raises
        ------
        LipyomoError
            If pandas is not installed.
        """
        return frame_of(row.to_dict() for row in sorted(self, key=lambda row: row.index))


def sweep(
    problems: Iterable[LipschitzProblem],
    method: str = "auto",
    settings: Settings | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    dask: str | None = None,
    **changes: Any,
) -> Sweep:
    """Solve many problems in processes of their own; rows come as they finish.

    Parameters
    ----------
    problems : iterable of LipschitzProblem
        Taken as workers get free: a generator of a million is fine.
    method : str, optional
        As for `lipyomo.solve`.
    settings : Settings, optional
        The time limit is that of each problem.  Each problem runs on one thread unless `threads`
        says otherwise; callbacks (`progress`, `should_stop`) do not reach other processes and are
        dropped.
    workers : int, optional
        Number of processes; one a core by default, 1 runs everything in this process.
    executor : concurrent.futures.Executor, optional
        Run there instead, such as ``distributed.Client(...).get_executor()`` or
        ``mpi4py.futures.MPIPoolExecutor()``.
    dask : str, optional
        Address of a dask scheduler to run on (extra ``[dask]``).
    **changes
        Fields of `Settings` to set, such as ``time_limit=60``.

    Returns
    -------
    Sweep
        An iterator of `SweepRow` in the order of completion (with one worker, of the problems);
        ``to_frame()`` collects them.

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
    chosen = chosen_settings(settings, changes)
    if chosen.checkpoint is not None:
        raise MethodError("a checkpoint is that of one problem, and a sweep has many")
    if chosen.solver != "auto":
        from lipyomo.solvers.registry import get_solver

        get_solver(chosen.solver, chosen.solvers_file)
    chosen = replace(chosen, progress=None, should_stop=None, threads=chosen.threads or 1)
    known = len(problems) if isinstance(problems, list | tuple) else None
    context: Workers[LipschitzProblem, Result] = Workers(workers, executor, dask, known)
    return Sweep(_rows(context, problems, method, chosen))


def _rows(
    context: Workers[LipschitzProblem, Result],
    problems: Iterable[LipschitzProblem],
    method: str,
    settings: Settings,
) -> Iterator[SweepRow]:
    with context as pool:
        for index, found in pool.run(partial(solve, method=method, settings=settings), problems):
            row = (
                SweepRow(index, found)
                if isinstance(found, Result)
                else SweepRow(index, None, str(found))
            )
            logger.info("problem %d: %s", index, row.error or f"{row.result!r}".splitlines()[0])
            yield row
