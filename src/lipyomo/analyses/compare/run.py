"""Running several methods on a problem, and yielding their rows as they finish."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from types import NoneType
from typing import Any

from lipyomo.analyses.compare.rows import Row
from lipyomo.base.arguments import instance, memory_size, whole_number
from lipyomo.base.errors import LipyomoError, MethodError, ProblemError
from lipyomo.base.system.memory import limit_memory
from lipyomo.base.system.processes import GRACE, ChildProcess
from lipyomo.methods.registry import Method, get_method, methods, run_method
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Guarantee, Progress, Result
from lipyomo.problems.settings import Settings

START = 120.0
"""Seconds that a process may take to start and to import the package."""

LEFT_OUT = ("crosslip", "mipcrosslip", "pairwise", "interval", "shor")
"""Methods that are not part of the default comparison, since others give the same."""


def default_methods(problem: LipschitzProblem) -> list[str]:
    """Methods that can treat `problem`, in the order of the method table."""
    return [
        name
        for name, method in methods().items()
        if name not in LEFT_OUT and method.refusal(problem) is None
    ]


def _work(
    send: Callable[..., None],
    name: str,
    problem: LipschitzProblem,
    settings: Settings,
    memory: int | None,
) -> Result:
    """Run a method in a separate process, and send messages when it starts and what it finds."""

    def progress(moment: Progress) -> None:
        send("interval", moment.lower, moment.upper)

    get_method(name)
    send("started")
    try:
        if memory is not None:
            limit_memory(memory)
        return run_method(name, problem, replace(settings, progress=progress))
    except MemoryError:
        raise LipyomoError("it ran out of memory") from None


def _row(
    problem: LipschitzProblem,
    method: Method,
    settings: Settings,
    memory: int | None,
    stop: Callable[[], bool],
) -> Row:
    """Run a method in its own process, at most until its time limit."""
    names = problem.network.name, problem.describe_norms(), method.name, method.title
    row = Row(*names, str(method.guarantee), "", None, 0.0, math.inf, 0.0)
    plain = replace(settings, progress=None, should_stop=None)
    began = time.monotonic()
    deadline = began + START
    status = ""
    with ChildProcess(
        _work, method.name, problem, plain, memory, threads=settings.workers or 1
    ) as child:
        for kind, *said in child:
            row = replace(row, seconds=time.monotonic() - began)
            if kind == "started":
                began = time.monotonic()
                deadline = began + settings.time_limit + GRACE
            elif kind == "interval":
                row = replace(row, lower=max(row.lower, said[0]), upper=min(row.upper, said[1]))
            elif kind == "done":
                return row.with_result(said[0])
            elif kind == "failed":
                status = "refused" if isinstance(said[0], MethodError) else "failed"
                message = str(said[0])
            elif kind == "died":
                status, message = "failed", f"its process ended by itself: {said[0]}"
            if status:
                break
            if stop():
                status = "interrupted"
                message = "stopped; the interval is the last one that it reported"
                break
            if time.monotonic() > deadline:
                status = "killed"
                message = f"killed after {settings.time_limit:g} s, its time limit"
                break
    known = row.upper if row.upper < math.inf else None
    if method.guarantee is Guarantee.LOWER:
        known = row.lower if row.lower > 0 else None
    return replace(row, status=status, value=known, message=message)


def compare(
    problem: LipschitzProblem,
    methods: Sequence[str] | None = None,
    time_limit: float = 60.0,
    settings: Settings | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    memory_limit: int | str | None = None,
    jobs: int = 1,
) -> Iterator[Row]:
    """Run methods side by side, each in its own process with its own limits.

    Each row shows what the method finds on its own: methods that compute upper bounds do not search
    for points here.  A method that refuses the problem, fails, hangs or uses too much memory gives
    a row that says so, and does not affect the others.  Leaving the iteration early kills all
    methods that are still running.

    Parameters
    ----------
    problem : LipschitzProblem
    methods : sequence of str, optional
        Names of methods; by default all that can solve the problem.
    time_limit : float, optional
        Seconds for each method; it is killed a little later if it does not stop by itself.
    settings : Settings, optional
        Seed, solver and so on for all methods; its time limit and options are not used.  Once its
        `should_stop` returns true, running methods end with the interval they reported last, and no
        others are started.
    options : mapping of str to mapping, optional
        Options of single methods, by method name.
    memory_limit : int or str, optional
        The largest address space of each process in bytes (if the system supports this).
    jobs : int, optional
        The number of processes at a time.  Timings are most reliable with one.

    Yields
    ------
    Row
        One row for each method as it finishes; pass them to `with_errors` for relative errors.

    Raises
    ------
    MethodError
        If a method is unknown.
    """
    instance(problem, LipschitzProblem, "the problem", ProblemError, "give a LipschitzProblem")
    whole_number(jobs, "jobs", MethodError, least=1)
    if memory_limit is not None:
        memory_limit = memory_size(memory_limit, "the memory limit", MethodError)
    remedy = "options by the names of methods, such as {'naive': {'norms': 'paper'}}"
    instance(options, (Mapping, NoneType), "options", MethodError, remedy)
    names = list(methods) if methods is not None else default_methods(problem)
    table = {name: get_method(name) for name in names}
    extra = {name: dict(values) for name, values in (options or {}).items()}
    unknown = sorted(set(extra) - set(names))
    if unknown:
        raise MethodError(f"options are given for {', '.join(unknown)}, which is not compared")
    base = replace(settings or Settings(), time_limit=time_limit, attain=False)
    asked = base.should_stop or (lambda: False)
    closed = threading.Event()

    def stop() -> bool:
        return closed.is_set() or asked()

    def one(name: str) -> Row | None:
        chosen = replace(base, options=extra.get(name, {}))
        return None if stop() else _row(problem, table[name], chosen, memory_limit, stop)

    def rows() -> Iterator[Row]:
        with ThreadPoolExecutor(max_workers=jobs) as pool:
            try:
                for future in as_completed([pool.submit(one, name) for name in table]):
                    row = future.result()
                    if row is not None:
                        yield row
            finally:
                closed.set()

    return rows()
