"""Many problems on many cores, or on a dask cluster: the same answers, in the order they finish.

A sweep runs one method on a family of problems (all balls around a test set, all snapshots of a
training run).  One problem that fails spoils nothing: its error comes back in its place.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lipyomo.errors import LipyomoError, MissingExtra
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result
from lipyomo.settings import Settings

if TYPE_CHECKING:
    from distributed import Client


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


def sweep(
    problems: Iterable[LipschitzProblem],
    method: str = "auto",
    settings: Settings | None = None,
    workers: int | None = None,
    client: Client | None = None,
) -> Iterator[SweepRow]:
    """Solve many problems in processes of their own; rows come as they finish.

    Parameters
    ----------
    problems : iterable of LipschitzProblem
    method : str, optional
        As for `lipyomo.solve`.
    settings : Settings, optional
        The time limit is that of each problem.  Each problem runs on one thread unless `threads`
        says otherwise; callbacks (`progress`, `should_stop`) do not reach other processes and are
        dropped.
    workers : int, optional
        Number of processes; one a core by default, 1 runs everything in this process.
    client : distributed.Client, optional
        Run on a dask cluster instead (extra ``[dask]``); lipyomo must be installed on its workers.

    Yields
    ------
    SweepRow
        In the order of completion; with one worker, in the order of the problems.

    Raises
    ------
    LipyomoError
        If the number of workers is not positive.

    Examples
    --------
    >>> import lipyomo
    >>> network = lipyomo.Network.from_arrays([[[1.0], [-1.0]], [[1.0, 2.0]]])
    >>> boxes = [lipyomo.Box(-1.0, 0.0, 1), lipyomo.Box(0.0, 1.0, 1)]
    >>> problems = [lipyomo.LipschitzProblem(network, box) for box in boxes]
    >>> [row.result.lower for row in lipyomo.sweep(problems, workers=1)]
    [2.0, 1.0]
    """
    if workers is not None and workers < 1:
        raise LipyomoError(f"a sweep needs at least one worker, not {workers}")
    chosen = replace(settings or Settings(), progress=None, should_stop=None)
    if chosen.threads is None:
        chosen = replace(chosen, threads=1)
    jobs = list(problems)
    if client is not None:
        yield from _on_cluster(jobs, method, chosen, client)
        return
    count = min(workers or os.cpu_count() or 1, max(len(jobs), 1))
    if count == 1:
        for index, problem in enumerate(jobs):
            yield _solve(index, problem, method, chosen)
        return
    # spawned, not forked: solver libraries keep threads that do not survive a fork
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        futures: list[Future[SweepRow]] = [
            pool.submit(_solve, index, problem, method, chosen)
            for index, problem in enumerate(jobs)
        ]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            for future in futures:
                future.cancel()


def _solve(index: int, problem: LipschitzProblem, method: str, settings: Settings) -> SweepRow:
    """Solve one problem; a user's error becomes a row."""
    from lipyomo.api import solve

    try:
        return SweepRow(index, solve(problem, method, settings))
    except LipyomoError as error:
        return SweepRow(index, None, str(error))


def _on_cluster(
    jobs: list[LipschitzProblem], method: str, settings: Settings, client: Client
) -> Iterator[SweepRow]:
    """Send every problem to the cluster; rows come as they finish."""
    try:
        from distributed import as_completed as completed
    except ImportError:
        raise MissingExtra("distributed", "dask", "A sweep on a cluster") from None
    futures = [
        client.submit(_solve, index, problem, method, settings, pure=False)
        for index, problem in enumerate(jobs)
    ]
    try:
        for future in completed(futures):
            yield future.result()
    finally:
        client.cancel([future for future in futures if not future.done()])
