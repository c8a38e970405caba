"""Requests to the adapters, and their reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lipyomo.base.arrays import FloatArray
from lipyomo.solvers.options import Native, SolverOptions
from lipyomo.solvers.status import SolveStatus
from lipyomo.solvers.supervise import Supervisor


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
