"""One call that solves a Pyomo model with whichever solver there is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyomo.core import TransformationFactory

from lipyomo.arguments import instance
from lipyomo.errors import SolverError
from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.matrices import LinearModel, compile_model
from lipyomo.solvers.options import KNOBS, SolverOptions
from lipyomo.solvers.outcome import SolveOutcome, outcome_of
from lipyomo.solvers.registry import (
    AUTO,
    Choice,
    SettingsLike,
    choose_solver,
    logger,
    resolve_settings,
)
from lipyomo.solvers.settings import SolverSettings
from lipyomo.solvers.status import Progress, SolveStatus
from lipyomo.solvers.supervise import StopEvent

_REFUSED = (SolveStatus.LICENCE, SolveStatus.SIZE_LIMIT)


def solve_model(
    model: Any,
    solver: str = AUTO,
    options: SolverOptions | None = None,
    start: Mapping[Any, float] | None = None,
    progress: Callable[[Progress], None] | None = None,
    stop: StopEvent | None = None,
    relax: bool = False,
    settings: SettingsLike = None,
    fallback: bool = True,
) -> SolveOutcome:
    """Solve a linear (mixed-integer) Pyomo model.

    Parameters
    ----------
    model : BlockData
        At most one active objective; none means: find a feasible point.
    solver : str
        A name in ``solvers.toml``, or ``auto``.
    options : SolverOptions, optional
    start : ComponentMap, optional
        Values of variables to start from; may be incomplete.
    progress : callable, optional
        Called with a `Progress` whenever the solver reports; may raise to end the solve.
    stop : threading.Event or alike, optional
        Ends the solve when set; the status is then INTERRUPTED.
    relax : bool
        Solve the continuous relaxation.
    settings : SolverSettings or path, optional
        Read from ``solvers.toml`` if not given.
    fallback : bool
        Go on to the next solver, with a note, if the model exceeds a free licence or the licence
        has run out.

    Returns
    -------
    SolveOutcome
        Nothing is written into the model; call ``outcome.load()`` for that.

    Raises
    ------
    SolverError
        If the model is neither linear nor quadratic, an argument is wrong, or no solver can be
        used.

    Examples
    --------
    >>> import pyomo.environ as pyo
    >>> m = pyo.ConcreteModel()
    >>> m.x = pyo.Var(domain=pyo.NonNegativeIntegers)
    >>> m.limit = pyo.Constraint(expr=2 * m.x <= 7)
    >>> m.profit = pyo.Objective(expr=m.x, sense=pyo.maximize)
    >>> outcome = solve_model(m, "highs")
    >>> outcome.status.name, outcome.incumbent, outcome.bound
    ('OPTIMAL', 3.0, 3.0)
    """
    settings = resolve_settings(settings)
    options = SolverOptions() if options is None else options
    instance(options, SolverOptions, "options", SolverError, "SolverOptions(time_limit=...)")
    if start is not None:
        instance(start, Mapping, "start", SolverError, "a ComponentMap from variables to values")
    linear = compile_model(model)
    if relax:
        linear = linear.relaxed()
    choice = choose_solver(linear, solver, settings, fallback)
    task = _Task(model, linear, options, start, progress, stop, relax)
    outcome = task.run(choice, settings)
    notes = choice.notes
    tried = {choice.name}
    while fallback and outcome.status in _REFUSED:
        note = f"{outcome.solver}: {outcome.message or outcome.status.value}"
        logger.warning(note)
        notes = (*notes, note)
        following = _next_choice(linear, tried, settings)
        if following is None:
            break
        tried.add(following.name)
        choice = Choice(following.name, following.solver, notes)
        outcome = task.run(choice, settings)
    return outcome


def _next_choice(linear: LinearModel, tried: set[str], settings: SolverSettings) -> Choice | None:
    """Return the next solver of ``auto`` that has not been tried and takes the model."""
    left = tuple(name for name in settings.auto if name not in tried)
    if not left:
        return None
    rest = SolverSettings(settings.source, left, settings.defaults, settings.entries)
    return choose_solver(linear, AUTO, rest)


@dataclass(frozen=True)
class _Task:
    """A model and all that was asked for it, to be put to one solver after another."""

    model: Any
    linear: LinearModel
    options: SolverOptions
    start: Mapping[Any, float] | None
    progress: Callable[[Progress], None] | None
    stop: StopEvent | None
    relax: bool

    def run(self, choice: Choice, settings: SolverSettings) -> SolveOutcome:
        """Solve with the chosen solver."""
        options = self.options.with_defaults(settings.knobs(choice.name))
        solver = choice.solver
        began = time.perf_counter()
        values: dict[str, Any] = {
            "load_solutions": False,
            "raise_exception_on_nonoptimal_result": False,
            "solver_options": dict(options.native),
        }
        for knob in KNOBS:
            if knob in solver.config:
                values[knob] = getattr(options, knob)
        if options.log:
            values["tee"] = True
        if isinstance(solver, MatrixSolver):
            values.update(start=self.start, progress=self.progress, stop=self.stop)
            config = solver.config(value=values, preserve_implicit=True)
            results = solver.solve_compiled(self.linear, config, self.model)
        else:
            # Any other adapter of the contract: no live progress and no early end, but a start.
            if self.start is not None and "warmstart_discrete_vars" in solver.config:
                for var, value in self.start.items():
                    var.set_value(value, skip_validation=True)
                values["warmstart_discrete_vars"] = True
            with _relaxed(self.model, self.relax):
                results = solver.solve(self.model, **values)
        seconds = time.perf_counter() - began
        return outcome_of(results, choice.name, self.linear.maximise, seconds, choice.notes)


@contextmanager
def _relaxed(model: Any, relax: bool) -> Iterator[None]:
    """Relax the integrality of a Pyomo model for a moment."""
    if not relax:
        yield
        return
    transformation = TransformationFactory("core.relax_integer_vars")
    transformation.apply_to(model)
    try:
        yield
    finally:
        transformation.apply_to(model, undo=True)
