"""Running several methods on a problem, their rows, and what is computed from all of them."""

from __future__ import annotations

import csv
import io
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace
from types import NoneType
from typing import Any

from lipyomo.base.arguments import instance, memory_size, whole_number
from lipyomo.base.errors import LipyomoError, MethodError, ProblemError
from lipyomo.base.numerics.rounding import EQUAL, refutes
from lipyomo.base.system.memory import limit_memory
from lipyomo.base.system.plain import finite, plain
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
    status = message = ""
    with ChildProcess(
        _work, method.name, problem, plain, memory, threads=settings.workers or 1
    ) as child:
        try:
            for kind, *said in child:
                row = replace(row, seconds=time.monotonic() - began)
                if kind == "started":
                    began = time.monotonic()
                    deadline = began + settings.time_limit + GRACE
                elif kind == "interval":
                    row = replace(row, lower=max(row.lower, said[0]), upper=min(row.upper, said[1]))
                elif kind == "done":
                    return row.with_result(said[0])
                if stop():
                    status = "interrupted"
                    message = "stopped; the interval is the last one that it reported"
                    break
                if time.monotonic() > deadline:
                    status = "killed"
                    message = f"killed after {settings.time_limit:g} s, its time limit"
                    break
        except LipyomoError as error:
            status = "refused" if isinstance(error, MethodError) else "failed"
            row, message = replace(row, seconds=time.monotonic() - began), str(error)
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


@dataclass(frozen=True)
class Row:
    """The result of one method for one problem.

    Attributes
    ----------
    network : str
        The name of the network.
    norms : str
        Such as ``linf -> l2``.
    method, title : str
        The name for ``--method``, and the title shown.
    guarantee : str
        exact, upper, lower or heuristic.
    status : str
        How it ended: a `Status`, or ``refused``, ``failed``, ``killed``, ``interrupted``.
    value : float or None
        The value of the method; None without one.
    lower, upper : float
        The interval that it proves; 0 and infinity if it proves nothing.
    seconds : float
        Wall-clock seconds of the method, without the start of its process.
    error : float or None
        The error relative to the exact value or to the best interval (see `with_errors`).  For an
        exact method that was stopped, how far its upper bound is above the truth, at most.
    message : str
        Why there is no value, or the first warning of the method.
    """

    network: str
    norms: str
    method: str
    title: str
    guarantee: str
    status: str
    value: float | None
    lower: float
    upper: float
    seconds: float
    error: float | None = None
    message: str = ""

    @property
    def is_open(self) -> bool:
        """Whether an exact method stopped before its interval was closed."""
        return self.guarantee == "exact" and self.status != "exact" and self.value is not None

    @property
    def has_answer(self) -> bool:
        """Whether there is a value, or an end of an interval."""
        return self.value is not None or self.lower > 0 or math.isfinite(self.upper)

    def with_result(self, result: Result) -> Row:
        """Return the row of a method that has finished.

        The value of an exact method that ran out of time is its upper bound.
        """
        value = result.value
        if result.guarantee is Guarantee.EXACT and not result.is_exact:
            value = result.upper
        return replace(
            self,
            guarantee=str(result.guarantee),
            status=str(result.status),
            value=finite(value),
            lower=result.lower,
            upper=result.upper,
            seconds=result.seconds,
            message=result.warnings[0] if result.warnings else "",
        )

    def to_dict(self) -> dict[str, object]:
        """Return plain data for JSON; infinities become None."""
        found: dict[str, object] = plain(asdict(self))
        return found


def reference_interval(rows: Iterable[Row]) -> tuple[float, float]:
    """Return the best interval that all rows prove together; a point if one of them is exact."""
    return joint_interval((row.lower, row.upper, row.status == "exact") for row in rows)


def with_errors(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with their relative errors; see `relative_error`."""
    ends = reference_interval(rows)
    return [replace(row, error=_error(row, *ends)) for row in rows]


def _error(row: Row, lower: float, upper: float) -> float | None:
    if row.value is None:
        return None
    if row.is_open and lower < upper:
        # its value may be the end of the best interval, which does not make its error zero
        return row.value / lower - 1.0 if lower > 0 else None
    return relative_error(row.value, lower, upper)


def to_json(rows: Sequence[Row]) -> str:
    """Return a JSON list of objects, one for each row."""
    return json.dumps([row.to_dict() for row in rows], indent=2, allow_nan=False)


def to_csv(rows: Sequence[Row]) -> str:
    """Return comma-separated values with a header; empty if there is no number."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [item.name for item in fields(Row)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row.to_dict() for row in rows)
    return text.getvalue()


def joint_interval(ends: Iterable[tuple[float, float, bool]]) -> tuple[float, float]:
    """Return the best interval that several methods prove together; a point if one is exact.

    Parameters
    ----------
    ends : iterable of (lower, upper, exact)
        The interval that each method proves; 0 and infinity if it proves nothing.

    Returns
    -------
    lower, upper : float
        ``lower <= upper``, unless a value attained by one method contradicts the bound of another.
    """
    lower, upper = 0.0, math.inf
    for low, high, exact in ends:
        if exact:
            return low, low
        lower, upper = max(lower, low), min(upper, high)
    return lower, upper if refutes(lower, upper) else max(upper, lower)


def relative_error(value: float, lower: float, upper: float) -> float | None:
    """Return the relative error of a value, given an interval that contains the truth.

    For a point v it is ``value / v - 1``; for an interval it is the distance to the nearer end,
    relative to that end, which is the least possible error; zero if the value is inside.

    Returns
    -------
    float or None
        None if the value is not a number, or the truth is zero.
    """
    if math.isnan(value):
        return None
    if lower * (1.0 - EQUAL) <= value <= upper * (1.0 + EQUAL):
        return 0.0
    end = upper if value > upper else lower
    return value / end - 1.0 if end > 0 else None


def error_text(error: float | None, open_: bool) -> str:
    """Format an error in percent; a star marks a least error, relative to an open interval."""
    return "" if error is None else f"{100.0 * error:+.2f}%{'*' if open_ else ''}"


def width_text(lower: float, upper: float) -> str:
    """Format how far the upper end of an open interval may be from the truth, in percent."""
    if not 0.0 < lower <= upper < math.inf:
        return "open"
    return f"at most {100.0 * (upper / lower - 1.0):.2f}%"
