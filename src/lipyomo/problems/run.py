"""The one state of a run: clock, the interval with its witness, history, progress.

A method gets a `Run` and returns ``run.result(...)``.  On the way it says what it has found,
``run.raise_lower(witness)`` and ``run.drop_upper(bound)``, and asks ``run.expired`` wherever it
could go on for long.  Whatever stops it (its own end, the time limit, the caller, Ctrl-C), the
interval known by then is the answer, and its status follows from the two ends as they are stated.

What lies below the methods needs no interval: it takes a `Clock` (`base/clock.py`).
"""

from __future__ import annotations

import math
from typing import Any

from lipyomo.base.clock import PAUSE_SHARE, Clock
from lipyomo.base.numerics.rounding import close_enough, refutes
from lipyomo.base.system.processes import MOMENT
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import DEFECT, Guarantee, Progress, Result, Status, Witness
from lipyomo.problems.settings import Settings

PROVED = "proved"
"""What an upper end rests on that follows from the weights alone, with rounding accounted for."""


class Run:
    """What a method knows while it runs, and whom it has to tell.

    Parameters
    ----------
    problem : LipschitzProblem
        As it was given (a method works on ``problem.reduced`` and lifts its points).
    settings : Settings, optional
    method : str, optional
    guarantee : Guarantee, optional
        What the method guarantees.
    clock : Clock, optional
        By default one that follows `settings`.

    Attributes
    ----------
    lower, upper : float
        The interval.  `lower` is the value of `witness`; `upper` is a bound and never moved by
        `lower`.
    witness : Witness or None
    basis : str
        What `upper` rests on: ``proved``, or the name of a solver with its tolerance.
    history : list of (seconds, lower, upper)
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        settings: Settings | None = None,
        method: str = "",
        guarantee: Guarantee = Guarantee.EXACT,
        clock: Clock | None = None,
    ) -> None:
        self.problem = problem
        self.settings = settings = settings or Settings()
        self.method, self.guarantee = method, guarantee
        self.clock = clock or Clock(settings.time_limit, settings.should_stop, settings.started)
        norm = problem.output_norm
        self._proof = PROVED if norm.proved else f"{PROVED}, but for the vertices of {norm.name}"
        self.lower, self.upper, self._proved = 0.0, math.inf, math.inf
        self.witness: Witness | None = None
        self.basis = PROVED
        self.nodes: int | None = None
        self.history: list[tuple[float, float, float]] = []
        self._warnings: list[str] = []
        self._details: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._shown = math.inf
        self._reported = -math.inf

    @property
    def expired(self) -> bool:
        """Whether the time is over or the caller asked to stop."""
        return self.clock.expired

    # -- the interval ------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the gap that was asked for is reached (1e-6 relative without one)."""
        return self.closed_by(self.upper)

    def closed_by(self, upper: float) -> bool:
        """Whether the gap that was asked for would be reached if this were the upper end."""
        return close_enough(self.lower, upper) or self.settings.within_gap(self.lower, upper)

    def raise_lower(self, witness: Witness | None) -> bool:
        """Take a witness of the original problem; True if it is the best so far."""
        if witness is None or (self.witness is not None and witness.value <= self.lower):
            return False
        self.witness, self.lower = witness, witness.value
        self._note(better=True)
        return True

    def drop_upper(self, bound: float, basis: str = PROVED) -> bool:
        """Take a bound of the whole problem; True if it is the least so far.

        Parameters
        ----------
        bound : float
        basis : str, optional
            What the bound rests on, if it is not proved.
        """
        bound = float(bound) + self.problem.underflow
        if basis == PROVED:
            self._proved = min(self._proved, bound)
        if not bound < self.upper:
            return False
        self.upper, self.basis = bound, self._proof if basis == PROVED else basis
        self._note()
        return True

    def show(self, upper: float | None = None, nodes: int | None = None, message: str = "") -> None:
        """Tell the caller how far the method is.

        Parameters
        ----------
        upper : float, optional
            A bound that is not confirmed yet: it is shown and not relied upon.
        nodes : int, optional
            Nodes of branch and bound so far.
        message : str, optional
            What is being done.
        """
        if upper is not None:
            self._shown = min(self._shown, upper)
        if nodes is not None:
            self.count(nodes)
        self._note(message=message)

    def count(self, nodes: int) -> None:
        """Keep the number of nodes so far."""
        self.nodes = nodes

    def _note(self, better: bool = False, message: str = "") -> None:
        """Enter the interval in the history and tell the caller, both not too often."""
        seconds = self.clock.seconds
        upper = max(min(self._shown, self.upper), self.lower)
        if not self.history or self.history[-1][1:] != (self.lower, upper):
            pause = PAUSE_SHARE * seconds
            if better or not self.history or seconds - self.history[-1][0] >= pause:
                self.history.append((seconds, self.lower, upper))
        progress = self.settings.progress
        if progress is not None and (better or seconds - self._reported >= MOMENT):
            self._reported = seconds
            progress(Progress(seconds, self.lower, upper, self.nodes or 0, message))

    # -- the end -----------------------------------------------------------------------------------

    def warn(self, *notes: str) -> None:
        """Keep remarks for the result, each once."""
        new = [note for note in dict.fromkeys(notes) if note not in self._warnings]
        self._warnings.extend(new)

    def record(self, **details: Any) -> None:
        """Keep plain data for the result's details."""
        self._details.update(details)

    def state(self, **facts: Any) -> None:
        """Keep fields of the result: formulation, solver, unstable, bounds."""
        self._facts.update(facts)

    def result(
        self,
        done: bool | None = None,
        *,
        guarantee: Guarantee | None = None,
        estimate: float | None = None,
        precise: bool = True,
        **facts: Any,
    ) -> Result:
        """The interval as a `Result`.

        Parameters
        ----------
        done : bool, optional
            Whether the method did all that it set out to do; by default whether there is time left
            and nothing was left out for want of it.
        guarantee : Guarantee, optional
            If it is not the method's usual one.
        estimate : float, optional
        precise : bool, optional
            Whether float64 numbers were fine enough for all that was tried.
        **facts
            As for `state`.

        Returns
        -------
        Result
        """
        guarantee = guarantee or self.guarantee
        if self.upper < min(self.lower, self._proved):  # it rests on a solver
            if refutes(self.lower, self.upper):
                self.warn(
                    f"{self.lower!r} is attained, above the bound {self.upper!r} of a "
                    f"{self.basis}: that is not used"
                )
                self.upper, self.basis, done = self._proved, self._proof, False
            else:  # by less than its tolerances
                self.upper = min(self.lower, self._proved)
        if done is None:
            done = not (self.expired or self.clock.curtailed)
        status = self._status(guarantee, done, precise)
        if status is Status.CONTRADICTION:
            self.warn(
                f"the ends contradict each other: {self.lower!r} is attained and {self.upper!r} is "
                f"a bound ({self.basis}).  {DEFECT}"
            )
        if self.witness is None and guarantee in (Guarantee.EXACT, Guarantee.LOWER):
            self.warn("no interior point was found: nothing is attained yet")
        return Result(
            self.lower,
            self.upper,
            status,
            self.method,
            guarantee,
            estimate=estimate,
            seconds=self.clock.seconds,
            nodes=self.nodes,
            basis=self.basis if math.isfinite(self.upper) else None,
            witness=self.witness,
            warnings=list(self._warnings),
            history=self._closing_history(),
            details=dict(self._details),
            stopped=self.clock.stopped,
            **self._facts | facts,
        )

    def _status(self, guarantee: Guarantee, done: bool, precise: bool) -> Status:
        """How the run ended; it follows from the ends as they are stated."""
        if self.lower > self.upper:  # both are proved, in exact arithmetic or with their rounding
            return Status.CONTRADICTION
        if close_enough(self.lower, self.upper) and (self.witness is not None or self.upper == 0):
            return Status.EXACT
        if not done and not (self.settings.gap > 0 and self.closed):
            if self.clock.interrupted:
                return Status.INTERRUPTED
            if self.expired or self.clock.curtailed:
                return Status.TIME_LIMIT
        exactly = guarantee is Guarantee.EXACT
        if exactly and precise and self.settings.gap > 0 and self.closed:
            return Status.GAP
        if not precise or (exactly and done):  # and all the same the ends are apart
            return Status.PRECISION
        return Status.BOUNDS

    def _closing_history(self) -> list[tuple[float, float, float]]:
        """The history, with the final interval as its last row.

        Bounds that were shown below the final one were not confirmed and are lifted.
        """
        rows = [(at, low, max(high, self.upper)) for at, low, high in self.history]
        last = (self.clock.seconds, self.lower, self.upper)
        return rows if rows and rows[-1][1:] == last[1:] else [*rows, last]
