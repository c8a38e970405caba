"""Run several methods on a problem, and give their rows as they come in."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from typing import Any

from lipyomo.compare.process import MethodProcess, Outcome
from lipyomo.compare.rows import Row, row_of_result
from lipyomo.compare.worker import Task
from lipyomo.errors import MethodError
from lipyomo.methods.registry import Method, get_method, methods
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Guarantee
from lipyomo.settings import Settings

LEFT_OUT = ("crosslip", "mipcrosslip", "pairwise", "interval", "shor")
"""Methods that are no part of the default comparison: others say the same."""


def default_methods(problem: LipschitzProblem) -> list[str]:
    """Methods that can treat `problem`, in the order of the method table."""
    return [
        name
        for name, method in methods().items()
        if name not in LEFT_OUT and method.refusal(problem) is None
    ]


def _row(problem: LipschitzProblem, method: Method, outcome: Outcome) -> Row:
    name, norms = problem.network.name, problem.describe_norms()
    if outcome.result is not None:
        return replace(row_of_result(name, norms, method.title, outcome.result), method=method.name)
    known = outcome.upper if outcome.upper < math.inf else None
    if method.guarantee is Guarantee.LOWER:
        known = outcome.lower if outcome.lower > 0 else None
    return Row(
        name,
        norms,
        method.name,
        method.title,
        str(method.guarantee),
        outcome.kind,
        known,
        outcome.lower,
        outcome.upper,
        outcome.seconds,
        message=outcome.message,
    )


def compare(
    problem: LipschitzProblem,
    methods: Sequence[str] | None = None,
    time_limit: float = 60.0,
    settings: Settings | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    memory_limit: int | None = None,
    jobs: int = 1,
) -> Iterator[Row]:
    """Run methods side by side, each in its own process under its own limits.

    Each shows what it finds by itself: methods that bound from above attain nothing here.

    A method that refuses the problem, fails, hangs or eats memory gives a row that says so and
    harms nothing.  Leaving the iteration early kills what still runs.

    Parameters
    ----------
    problem : LipschitzProblem
    methods : sequence of str, optional
        Names of the method table; by default all that can treat the problem.
    time_limit : float, optional
        Seconds of each method; it is killed a little later if it does not stop by itself.
    settings : Settings, optional
        Seed, solver and so on for all methods; its time limit and options are not used.  Once its
        `should_stop` says so, running methods end with the interval that they reported last, and
        no others begin.
    options : mapping of str to mapping, optional
        Options of single methods, by method name.
    memory_limit : int, optional
        Most bytes of address space of each process (where the system has such a limit).
    jobs : int, optional
        Processes at a time.  Timings mean most with one.

    Yields
    ------
    Row
        As methods finish; pass the rows to `with_errors` for their relative errors.

    Raises
    ------
    MethodError
        If a method is unknown.
    """
    names = list(methods) if methods is not None else default_methods(problem)
    table = {name: get_method(name) for name in names}
    extra = {name: dict(values) for name, values in (options or {}).items()}
    unknown = sorted(set(extra) - set(names))
    if unknown:
        raise MethodError(f"options are given for {', '.join(unknown)}, which is not compared")
    base = replace(settings or Settings(), time_limit=time_limit, attain=False)
    return _stream(problem, table, base, extra, memory_limit, jobs)


def _stream(
    problem: LipschitzProblem,
    table: dict[str, Method],
    settings: Settings,
    options: dict[str, dict[str, Any]],
    memory: int | None,
    jobs: int,
) -> Iterator[Row]:
    running: set[MethodProcess] = set()
    stop = settings.should_stop or (lambda: False)
    lock, closed = threading.Lock(), threading.Event()

    def one(name: str) -> Row | None:
        chosen = replace(settings, options=options.get(name, {}))
        with lock:
            if closed.is_set() or stop():
                return None
            process = MethodProcess(Task(name, problem, chosen, memory))
            running.add(process)
        outcome = process.wait(stop)
        with lock:
            running.discard(process)
        return _row(problem, table[name], outcome)

    pool = ThreadPoolExecutor(max_workers=max(jobs, 1))
    try:
        for future in as_completed([pool.submit(one, name) for name in table]):
            row = future.result()
            if row is not None:
                yield row
    finally:
        closed.set()
        with lock:
            for process in running:
                process.kill()
        pool.shutdown(wait=True, cancel_futures=True)
