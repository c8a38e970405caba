"""Requests to the adapters, their reports, and the supervision of a running solver.

Solvers run C code, during which Python cannot handle Ctrl-C.  So the solver runs in a thread of its
own; the calling thread forwards progress reports, handles Ctrl-C and the caller's stop event, and
interrupts the solver.  The caller's progress function is called in the calling thread, so that no
exception in it passes through a solver's C code.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Protocol, TypeVar

from lipyomo.base.arrays import FloatArray
from lipyomo.base.system.processes import MOMENT, POLL
from lipyomo.solvers.options import Native, SolverOptions
from lipyomo.solvers.status import INFINITE, SolveProgress, SolveStatus

T = TypeVar("T")


class StopEvent(Protocol):
    """Anything with `is_set`, such as `threading.Event`."""

    def is_set(self) -> bool:
        """Return whether the solve should stop."""


class Supervisor:
    """The link between a running solver and its caller.

    Parameters
    ----------
    progress : callable, optional
        Called in the calling thread with every `SolveProgress`.
    stop : StopEvent, optional
        Polled; when set, the solver is interrupted.
    write : callable, optional
        Called with each piece of the solver's log as it appears, in the solver's thread.
    """

    def __init__(
        self,
        progress: Callable[[SolveProgress], None] | None = None,
        stop: StopEvent | None = None,
        write: Callable[[str], object] | None = None,
    ) -> None:
        self._progress = progress
        self._stop = stop
        self._write = write
        self._halt = threading.Event()
        self._reports: SimpleQueue[SolveProgress] = SimpleQueue()
        self._log: list[str] = []
        self._latest: tuple[float | None, float] = (None, math.nan)
        self._reported = -math.inf
        self._started = time.perf_counter()

    @property
    def halted(self) -> bool:
        """Whether the solver was interrupted; may be polled by solver callbacks."""
        return self._halt.is_set()

    @property
    def log(self) -> str:
        """The solver's log so far."""
        return "".join(self._log)

    @property
    def seconds(self) -> float:
        """Wall-clock seconds since the supervisor was created."""
        return time.perf_counter() - self._started

    def write(self, text: str) -> None:
        """Receive a piece of the solver's log."""
        self._log.append(text)
        if self._write is not None:
            self._write(text)

    def flush(self) -> None:
        """Do nothing: logs are not buffered.  Some solvers write to this as to a file."""

    def report(self, incumbent: float | None, bound: float, nodes: float) -> None:
        """Receive a progress report in the solver's thread; most without changes are dropped.

        Numbers from `INFINITE` on become infinite, an infinite incumbent becomes None.
        """
        if incumbent is not None and not abs(incumbent) < INFINITE:
            incumbent = None
        if abs(bound) >= INFINITE:
            bound = math.copysign(math.inf, bound)
        now = self.seconds
        if self._progress is None or (
            (incumbent, bound) == self._latest and now < self._reported + MOMENT
        ):
            return
        self._latest, self._reported = (incumbent, bound), now
        self._reports.put(SolveProgress(incumbent, bound, int(nodes), now))

    def run(self, work: Callable[[], T], interrupt: Callable[[], object]) -> T:
        """Call `work` in a thread and return its value; call `interrupt` once to end it early.

        The first Ctrl-C interrupts the solver regularly.  The second is raised after the solver has
        ended, the third immediately.
        """
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="solver")
        future = executor.submit(work)
        interrupted = False
        try:
            while True:
                try:
                    done = bool(wait([future], timeout=POLL).done)
                    while self._progress is not None and not self._reports.empty():
                        self._progress(self._reports.get())  # no other thread takes any
                    if done:
                        return future.result()
                    if self._stop is not None and self._stop.is_set():
                        self._halt.set()
                    if self.halted and not interrupted:
                        interrupted = True
                        interrupt()
                except KeyboardInterrupt:
                    if self.halted:
                        raise
                    self._halt.set()
        finally:
            # After an exception of the caller's progress function, or a second Ctrl-C: wait for the
            # end of the solver, whose memory must not be freed while it runs.
            if not future.done():
                self._halt.set()
                interrupt()
                wait([future])
            executor.shutdown(wait=False)


@dataclass(frozen=True)
class RunRequest(SolverOptions):
    """A request to an adapter: options, of which None stands for the solver's default, and a start.

    Parameters
    ----------
    supervisor : Supervisor
        Runs the solver and receives its log and progress.
    start : numpy.ndarray, shape (columns,), optional
        Warm start; NaN where no value is known.
    searched : bool, optional
        Whether the start is the result of a primal search, so that primal heuristics of the solver
        would gain little.
    found : callable, optional
        Called with every new incumbent, in the solver's thread, by solvers that may be killed
        before they return.
    """

    supervisor: Supervisor = field(default_factory=Supervisor)
    start: FloatArray | None = None
    searched: bool = False
    found: Callable[[FloatArray], None] | None = None

    def settings(
        self, names: Mapping[str, str], least_tolerance: float = 0.0
    ) -> Iterator[tuple[str, Native]]:
        """Yield the solver's parameters: the common options by its names, then its own options.

        Parameters
        ----------
        names : mapping
            From common options to the solver's names.
        least_tolerance : float, optional
            The smallest integrality tolerance that the solver accepts.
        """
        for knob, name in names.items():
            value = getattr(self, knob)
            if knob == "integrality_tolerance" and value is not None:
                value = max(value, least_tolerance)
            if value is not None:
                yield name, value
        yield from self.native.items()


@dataclass(frozen=True)
class RunReport:
    """The report of an adapter.

    Parameters
    ----------
    status : SolveStatus
        OPTIMAL means that the requested gap is closed; `normalise` derives the final status, the
        objective and infinite bounds, and finds contradictions.
    x : numpy.ndarray, shape (columns,), optional
        The incumbent.
    bound : float, optional
        The dual bound in the model's sense, in full precision (or rounded outward).
    nodes : int
    message : str
    row_duals, reduced_costs : numpy.ndarray, optional
        Of a continuous model solved to optimality; signs as in Pyomo (change of the objective with
        the right-hand side).
    """

    status: SolveStatus
    x: FloatArray | None = None
    bound: float | None = None
    nodes: int = 0
    message: str = ""
    row_duals: FloatArray | None = None
    reduced_costs: FloatArray | None = None
