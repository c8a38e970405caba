"""The base class of the adapters: Pyomo's solver interface on matrices.

A solver is added by a subclass of `MatrixSolver` that names its `package` and implements
`check_option` and `run`.  Everything that must be the same for all solvers is done
here.
"""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import numpy as np
import scipy.sparse as sp
from pyomo.common.collections import ComponentMap
from pyomo.common.config import Bool, ConfigValue, NonNegativeFloat, PositiveInt
from pyomo.contrib.solver.common.base import Availability, SolverBase
from pyomo.contrib.solver.common.config import BranchAndBoundConfig
from pyomo.contrib.solver.common.results import Results
from pyomo.contrib.solver.common.util import NoFeasibleSolutionError, NoOptimalSolutionError

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import SolverError
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.base.system.extras import installed, require
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.loading import MatrixSolutionLoader
from lipyomo.solvers.matrices import LinearModel
from lipyomo.solvers.options import KNOBS, Native
from lipyomo.solvers.outcome import CONDITIONS, normalise, pyomo_solution_status
from lipyomo.solvers.status import SolveStatus
from lipyomo.solvers.supervise import RunReport, RunRequest, Supervisor

__all__ = ["Availability", "CommercialSolver", "MatrixSolver", "RunReport", "RunRequest"]


def matrix_config() -> BranchAndBoundConfig:
    """Return Pyomo's branch-and-bound options, and additional ones of lipyomo."""
    found = BranchAndBoundConfig()
    for name, domain, default, description in (
        ("integrality_tolerance", NonNegativeFloat, None, "Distance allowed from an integer."),
        ("node_limit", PositiveInt, None, "Most branch-and-bound nodes."),
        ("start", None, None, "Mapping from variables to values to start from."),
        ("warmstart_discrete_vars", Bool, False, "Start from the variables' values."),
        ("searched", Bool, False, "Good points were searched for already."),
        ("progress", None, None, "Called with every `SolveProgress` report."),
        ("stop", None, None, "An event that ends the solve when it is set."),
        ("relax", Bool, False, "Drop integrality."),
    ):
        found.declare(name, ConfigValue(default, domain, description))
    return found


class MatrixSolver(SolverBase, ABC):
    """A solver of mixed-integer linear models with Pyomo's ``contrib.solver`` interface.

    It can be used directly: ``Highs().solve(model, time_limit=10, load_solutions=False)`` returns
    Pyomo's `Results`; `lipyomo.solvers.solve_model` returns a normalised `SolveOutcome`.

    Notes
    -----
    Subclasses set `title` and `package` and implement `check_option` and `run`; solvers that are
    not Python packages override `available` and `version`.
    """

    CONFIG = matrix_config()
    title = "solver"
    """The solver's name in messages."""
    package = ""
    """The solver's Python package."""
    terms = "open source"
    """One line on the licence."""
    takes: frozenset[str] = frozenset()
    """Each `Feature` beyond linear rows that the solver supports."""
    least_tolerance = 0.0
    """The smallest integrality tolerance that the solver accepts."""

    @abstractmethod
    def run(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Solve a compiled model; implemented by every adapter.

        Parameters
        ----------
        model : LinearModel
            With at least one column, no empty row and no crossed bounds.
        request : RunRequest

        Returns
        -------
        RunReport
        """

    def refusal(self, model: LinearModel) -> str | None:
        """Return why the solver does not support a model, with the component; None if it does."""
        for feature, where in model.features.items():
            if feature not in self.takes:
                return f"{self.title} takes no {feature} ({where})"
        return None

    @abstractmethod
    def check_option(self, name: str, value: Native) -> None:
        """Raise `SolverError` unless the solver accepts this option and value."""

    def available(self) -> Availability:
        """Return whether the solver is installed; for commercial ones, also the licence."""
        return Availability.FullLicense if installed(self.package) else Availability.NotFound

    def complaint(self) -> str:
        """Return why an existing installation cannot be used, for messages; empty if it can."""
        return ""

    def version(self) -> tuple[int, ...] | None:
        """Return the version of the solver, or None."""
        return self.version_of(self.module()) if installed(self.package) else None

    def version_of(self, module: Any) -> tuple[int, ...]:
        """Return the version of the imported package: by default that of its installation."""
        return tuple(map(int, re.findall(r"\d+", metadata.version(self.package))))

    def module(self) -> Any:
        """Import the package; `MissingExtra` if it is not installed."""
        return require(self.package, self.title)

    def licence(self) -> str:
        """Return one line on the licence in use."""
        return self.terms

    def solve(self, model: Any, **kwargs: Any) -> Results:
        """Solve a Pyomo model.

        Parameters
        ----------
        model : BlockData
        **kwargs
            Values of this solver's `config` for this call (as in Pyomo).

        Returns
        -------
        Results
            With the dual bound in `objective_bound` for any status; ``extra_info`` has ``status``
            (`SolveStatus`), ``nodes``, ``violation`` and ``message``.

        Raises
        ------
        SolverError
            If the solver does not support the model or an option is wrong.
        """
        called = time.perf_counter()
        config = self.config(value=kwargs, preserve_implicit=True)
        return self.solve_compiled(compile_model(model), config, model, called)

    def solve_compiled(
        self, model: LinearModel, config: Any, pyomo_model: Any, called: float
    ) -> Results:
        """Solve a compiled model, which several solvers can share.

        Parameters
        ----------
        model : LinearModel
        config : BranchAndBoundConfig
            See `matrix_config`.
        pyomo_model : BlockData
            The model whose suffixes are loaded.
        called : float
            Value of ``time.perf_counter()`` at which the time limit starts.
        """
        for name, value in config.solver_options.value().items():
            self.check_option(name, value)
        if config.relax:
            model = model.relaxed()
        refused = self.refusal(model)
        if refused is not None:
            raise SolverError(f"{refused}.  Remedy: choose another solver, or 'auto'")
        started = datetime.now(UTC)
        request = _request(model, config, pyomo_model, called)
        supervisor = request.supervisor
        report = self._run_and_decide(model, request)
        final = normalise(model, report, request.start)

        results = Results()
        results.set_value(
            {
                "solver_name": self.name,
                "solver_version": self.version(),
                "solver_config": config,
                "solver_log": supervisor.log,
                "termination_condition": CONDITIONS[final.status],
                "solution_status": pyomo_solution_status(final),
                "incumbent_objective": final.incumbent,
                "objective_bound": final.bound,
                "timing_info": {"start_timestamp": started, "wall_time": supervisor.seconds},
                "extra_info": {
                    "status": final.status,
                    "nodes": report.nodes,
                    "violation": final.violation,
                    "message": final.message,
                },
                "solution_loader": MatrixSolutionLoader(
                    pyomo_model, model, final.x, report.row_duals, report.reduced_costs
                ),
            }
        )
        # Load the solution or raise, as requested by Pyomo's two options.
        optimal = final.status in (SolveStatus.OPTIMAL, SolveStatus.GAP)
        if config.raise_exception_on_nonoptimal_result and not optimal:
            raise NoOptimalSolutionError()
        if config.load_solutions:
            if final.incumbent is None:
                raise NoFeasibleSolutionError()
            results.solution_loader.load_solution()
        return results

    def _run_and_decide(self, model: LinearModel, request: RunRequest) -> RunReport:
        """Run the solver unless the answer is known; tell infeasible from unbounded models."""
        impossible = model.infeasible or model.fractional
        if impossible is not None:
            return RunReport(SolveStatus.INFEASIBLE, message=impossible)
        if not model.columns:
            return RunReport(SolveStatus.OPTIMAL, np.zeros(0), model.offset)
        report = self.run(model, request)
        doubtful = report.status is SolveStatus.INFEASIBLE_OR_UNBOUNDED or (
            # A ray of the relaxation does not show that an integer point exists.
            report.status is SolveStatus.UNBOUNDED and model.is_mip and report.x is None
        )
        if not doubtful:
            return report
        left = request.time_limit
        if left is not None:
            left = max(left - request.supervisor.seconds, 0.1)
        aimless = replace(model, cost=np.zeros_like(model.cost), offset=0.0, quadratic=None)
        again = self.run(aimless, replace(request, start=None, time_limit=left))
        if again.status in (SolveStatus.INFEASIBLE, SolveStatus.INFEASIBLE_OR_UNBOUNDED):
            # A model without an objective cannot be unbounded.
            return RunReport(SolveStatus.INFEASIBLE, nodes=report.nodes + again.nodes)
        if again.x is not None:
            return RunReport(SolveStatus.UNBOUNDED, again.x, nodes=report.nodes + again.nodes)
        if again.status is SolveStatus.OPTIMAL:
            return RunReport(SolveStatus.UNBOUNDED, nodes=report.nodes + again.nodes)
        return RunReport(SolveStatus.INFEASIBLE_OR_UNBOUNDED, message=again.message)


_LICENCES: dict[str, Availability] = {}
"""The licences that were found, by package."""


class CommercialSolver(MatrixSolver):
    """A solver whose licence may limit model sizes."""

    terms = "free licence"
    """The name of the free licence."""
    free_columns = 0
    """The number of columns that it takes."""

    def available(self) -> Availability:
        """Return whether the solver is installed, and its licence, found once per process."""
        if not installed(self.package):
            return Availability.NotFound
        if self.package not in _LICENCES:
            none, many = np.zeros(0), np.zeros(self.free_columns + 1)
            rows = sp.csc_array((0, many.size))
            model = LinearModel(rows, none, none, many, 0.0, many, many, many > 0.0, False, [], [])
            ended = self.run(model, RunRequest()).status
            known = {SolveStatus.OPTIMAL: Availability.FullLicense}
            known[SolveStatus.SIZE_LIMIT] = Availability.LimitedLicense
            _LICENCES[self.package] = known.get(ended, Availability.BadLicense)
        return _LICENCES[self.package]

    def licence(self) -> str:
        """Return which licence was found."""
        found = {
            Availability.FullLicense: "licence found",
            Availability.LimitedLicense: self.terms,
        }
        return f"commercial, {found.get(self.available(), 'no usable licence')}"


def _request(model: LinearModel, config: Any, pyomo_model: Any, called: float) -> RunRequest:
    """Return the request for an adapter; without a start, blocks of the model propose one."""
    start, searched, limit = _start_vector(model, config), config.searched, config.time_limit
    if start is None and model.is_mip:
        start = proposed_start(pyomo_model, model)
        searched = start is not None
    if limit is not None:
        limit = max(limit - (time.perf_counter() - called), min(limit, 0.01))
    return RunRequest(
        **{knob: config[knob] for knob in KNOBS if knob in config} | {"time_limit": limit},
        native=dict(config.solver_options.value()),
        supervisor=Supervisor(config.progress, config.stop, _tee(config.tee)),
        start=start,
        searched=searched,
    )


def _start_vector(model: LinearModel, config: Any) -> FloatArray | None:
    """Return the start as a vector, or None if there is none."""
    values = config.start
    if values is None and config.warmstart_discrete_vars:
        values = ComponentMap((var, var.value) for var in model.columns)
    vector = model.vector(ComponentMap() if values is None else values)
    return None if np.isnan(vector).all() else vector


def proposed_start(model: Any, linear: LinearModel) -> FloatArray | None:
    """Return a feasible point proposed by a block of the model, or None.

    The method ``propose_start`` of blocks that have one is called in turn, for values of all
    columns of the compiled model, until a proposal is feasible.
    """
    for block in model.block_data_objects(active=True):
        propose = getattr(type(block), "propose_start", None)
        values = None if propose is None else propose(block, model, linear.columns)
        if values is not None:
            point = linear.vector(values)
            if np.isfinite(point).all() and linear.violation(point) <= EQUAL:
                return point
    return None


def _tee(streams: Any) -> Callable[[str], None]:
    """Return a function that writes to all of Pyomo's `tee` streams."""

    def write(text: str) -> None:
        for stream in streams:
            stream.write(text)
            stream.flush()

    return write
