"""The state of a run: clock, the interval with its witness, history, progress.

A method gets a `Run` and returns ``run.result(...)``.  It reports improvements at once, by
``run.raise_lower(witness)`` and ``run.drop_upper(bound)``, and checks ``run.expired`` regularly.
However it ends (by itself, the time limit, the caller or Ctrl-C), the current interval is the
result, and its status follows from the two ends.

Code below the methods does not need the interval: it takes a `Clock` (`base/clock.py`).
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
"""Basis of an upper bound that follows from the weights alone, with rounding accounted for."""


class Run:
    """The state of a running method.

    Parameters
    ----------
    problem : LipschitzProblem
        The original problem (a method works on ``problem.reduced`` and lifts its points).
    settings : Settings, optional
    method : str, optional
    guarantee : Guarantee, optional
        The guarantee of the method.
    clock : Clock, optional
        By default one according to `settings`.

    Attributes
    ----------
    lower, upper : float
        The interval.  `lower` is the value of `witness`; `upper` is a bound, independent of
        `lower`.
    witness : Witness or None
    basis : str
        The basis of `upper`: ``proved``, or the name of a solver with its tolerance.
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
        """Whether time is up or the caller asked to stop."""
        return self.clock.expired

    # -- the interval ------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the requested gap is reached (1e-6 relative by default)."""
        return self.closed_by(self.upper)

    def closed_by(self, upper: float) -> bool:
        """Return whether the requested gap would be reached with this upper bound."""
        return close_enough(self.lower, upper) or self.settings.within_gap(self.lower, upper)

    def raise_lower(self, witness: Witness | None) -> bool:
        """Record a witness of the original problem; True if it is the best so far."""
        if witness is None or (self.witness is not None and witness.value <= self.lower):
            return False
        self.witness, self.lower = witness, witness.value
        self._note(better=True)
        return True

    def drop_upper(self, bound: float, basis: str = PROVED) -> bool:
        """Record an upper bound of the problem; True if it is the smallest so far.

        Parameters
        ----------
        bound : float
        basis : str, optional
            The basis of the bound, if it is not proved.
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
        """Report progress to the caller.

        Parameters
        ----------
        upper : float, optional
            A bound that is not confirmed yet: it is shown but not used.
        nodes : int, optional
            Nodes of branch and bound so far.
        message : str, optional
            The current stage.
        """
        if upper is not None:
            self._shown = min(self._shown, upper)
        if nodes is not None:
            self.count(nodes)
        self._note(message=message)

    def count(self, nodes: int) -> None:
        """Record the number of nodes so far."""
        self.nodes = nodes

    def _note(self, better: bool = False, message: str = "") -> None:
        """Append the interval to the history and report it, both at a limited rate."""
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
        """Add warnings to the result, each once."""
        new = [note for note in dict.fromkeys(notes) if note not in self._warnings]
        self._warnings.extend(new)

    def record(self, **details: Any) -> None:
        """Add plain data to the result's details."""
        self._details.update(details)

    def state(self, **facts: Any) -> None:
        """Set fields of the result: formulation, solver, unstable, bounds."""
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
        """Return the interval as a `Result`.

        Parameters
        ----------
        done : bool, optional
            Whether the method was completed; by default whether there is time left and nothing was
            skipped for lack of time.
        guarantee : Guarantee, optional
            If it differs from the method's usual one.
        estimate : float, optional
        precise : bool, optional
            Whether float64 was precise enough for everything that was tried.
        **facts
            As for `state`.

        Returns
        -------
        Result
        """
        guarantee = guarantee or self.guarantee
        if self.upper < min(self.lower, self._proved):  # the bound of a solver
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
        """Return the status, which follows from the final ends."""
        if self.lower > self.upper:  # both are proved, exactly or with rounding accounted for
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
        if not precise or (exactly and done):  # complete, but the ends differ
            return Status.PRECISION
        return Status.BOUNDS

    def _closing_history(self) -> list[tuple[float, float, float]]:
        """Return the history with the final interval as its last row.

        Unconfirmed upper bounds below the final one are raised to it.
        """
        rows = [(at, low, max(high, self.upper)) for at, low, high in self.history]
        last = (self.clock.seconds, self.lower, self.upper)
        return rows if rows and rows[-1][1:] == last[1:] else [*rows, last]
