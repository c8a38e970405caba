"""What an adapter is asked for and what it brings back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lipyomo.base.arrays import FloatArray
from lipyomo.solvers.options import Native
from lipyomo.solvers.status import SolveStatus
from lipyomo.solvers.supervise import Supervisor


@dataclass(frozen=True)
class RunRequest:
    """What an adapter is asked for; None leaves the solver's default in place.

    Parameters
    ----------
    supervisor : Supervisor
        Runs the solver, takes its log and its progress.
    time_limit, threads, rel_gap, abs_gap, integrality_tolerance, node_limit
        As in `SolverOptions`.
    native : mapping
        The solver's own options.
    start : numpy.ndarray, shape (columns,), optional
        A point to start from; NaN where no value is known.
    searched : bool, optional
        Whether good points were searched for already, so that another search would bring little.
    found : callable, optional
        Called with every better point, in the solver's thread, by solvers that may be ended before
        they answer.
    """

    supervisor: Supervisor
    time_limit: float | None = None
    threads: int | None = None
    rel_gap: float | None = None
    abs_gap: float | None = None
    integrality_tolerance: float | None = None
    node_limit: int | None = None
    native: Mapping[str, Native] = field(default_factory=dict)
    start: FloatArray | None = None
    searched: bool = False
    found: Callable[[FloatArray], None] | None = None

    def settings(
        self, names: Mapping[str, str], least_tolerance: float = 0.0
    ) -> Iterator[tuple[str, Native]]:
        """What to set: the common knobs by the solver's names for them, then its own options.

        Parameters
        ----------
        names : mapping
            From knobs to the solver's names.
        least_tolerance : float, optional
            The smallest integrality tolerance that the solver takes.
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
    """What an adapter brings back.

    Parameters
    ----------
    status : SolveStatus
        OPTIMAL stands for "the gap that was asked for is closed"; what it comes to is settled
        later, as are objective, infinities and contradictions.
    x : numpy.ndarray, shape (columns,), optional
        The incumbent.
    bound : float, optional
        The dual bound in the model's sense, in full precision (or rounded outward).
    nodes : int
    message : str
    row_duals, reduced_costs : numpy.ndarray, optional
        Of a continuous model that was solved; signs as in Pyomo (change of the objective with the
        right-hand side).
    """

    status: SolveStatus
    x: FloatArray | None = None
    bound: float | None = None
    nodes: int = 0
    message: str = ""
    row_duals: FloatArray | None = None
    reduced_costs: FloatArray | None = None
