"""Solve a Pyomo model with any available solver, by one function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyomo.common.collections import ComponentMap
from pyomo.core import TransformationFactory

from lipyomo.base.arguments import instance
from lipyomo.base.errors import SolverError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.compilation import compile_model
from lipyomo.solvers.options import KNOBS, SolverOptions
from lipyomo.solvers.outcome import SolveOutcome, outcome_of
from lipyomo.solvers.registry import AUTO, SettingsLike, capable_solvers, logger, resolve_settings
from lipyomo.solvers.status import SolveProgress, SolveStatus
from lipyomo.solvers.supervise import StopEvent

_REFUSED = (SolveStatus.LICENCE, SolveStatus.SIZE_LIMIT)


@with_one_blas_thread
def solve_model(
    model: Any,
    solver: str = AUTO,
    options: SolverOptions | None = None,
    start: Mapping[Any, float] | None = None,
    progress: Callable[[SolveProgress], None] | None = None,
    stop: StopEvent | None = None,
    relax: bool = False,
    settings: SettingsLike = None,
    fallback: bool = True,
    searched: bool = False,
) -> SolveOutcome:
    """Solve a linear (mixed-integer) Pyomo model.

    Parameters
    ----------
    model : BlockData
        With at most one active objective; without one, a feasible point is sought.
    solver : str
        A name in ``solvers.toml``, or ``auto``.
    options : SolverOptions, optional
    start : ComponentMap, optional
        Warm start: values of variables; may be incomplete.
    progress : callable, optional
        Called with a `SolveProgress` whenever the solver reports; an exception in it ends the
        solve.
    stop : threading.Event or alike, optional
        Ends the solve when set, with status INTERRUPTED.
    relax : bool
        Solve the continuous relaxation.
    settings : SolverSettings or path, optional
        Read from ``solvers.toml`` if not given.
    fallback : bool
        Use the next solver, with a note, if the model exceeds a free licence or the licence has
        expired.
    searched : bool
        The start is the result of a primal search: HiGHS skips heuristics that solve sub-MIPs, and
        uses less strong branching.

    Returns
    -------
    SolveOutcome
        The model is not changed; call ``outcome.load()`` to load the solution.

    Raises
    ------
    SolverError
        If the model is neither linear nor quadratic, an argument is wrong, or no solver is
        available.

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
    called = time.perf_counter()
    settings = resolve_settings(settings)
    options = SolverOptions() if options is None else options
    instance(options, SolverOptions, "options", SolverError, "SolverOptions(time_limit=...)")
    if start is not None:
        instance(start, Mapping, "start", SolverError, "a ComponentMap from variables to values")
    linear = compile_model(model)
    if relax:
        linear = linear.relaxed()
    notes: tuple[str, ...] = ()
    for choice in capable_solvers(linear, solver, settings, fallback):
        notes += choice.notes
        config = _config(options, choice.solver)
        began = time.perf_counter()
        if isinstance(choice.solver, MatrixSolver):
            config.update(start=start, progress=progress, stop=stop, searched=searched)
            full = choice.solver.config(value=config, preserve_implicit=True)
            results = choice.solver.solve_compiled(linear, full, model, called)
        else:
            results = _solved_by_another(choice.solver, config, model, start, relax)
        seconds = time.perf_counter() - began
        outcome = outcome_of(results, choice.name, linear.maximise, seconds, notes)
        if not fallback or outcome.status not in _REFUSED:
            break
        notes += (f"{outcome.solver}: {outcome.message or outcome.status.value}",)
        logger.warning(notes[-1])
    return replace(outcome, notes=notes)


def _config(options: SolverOptions, solver: Any) -> dict[str, Any]:
    """Return the configuration of a call: the given options that the solver has."""
    given = {knob: getattr(options, knob) for knob in KNOBS} | {"tee": options.log}
    return {
        "load_solutions": False,
        "raise_exception_on_nonoptimal_result": False,
        "solver_options": {**solver.config.solver_options.value(), **options.native},
        **{name: x for name, x in given.items() if x is not None and name in solver.config},
    }


def _solved_by_another(
    solver: Any, config: dict[str, Any], model: Any, start: Mapping[Any, float] | None, relax: bool
) -> Any:
    """Solve with another adapter of Pyomo: with a start, but no progress and no interruption."""
    if start and "warmstart_discrete_vars" in solver.config:
        config["warmstart_discrete_vars"] = True
    with _relaxed(model, relax), _holding(start or {}):
        return solver.solve(model, **config)


@contextmanager
def _holding(values: Mapping[Any, float]) -> Iterator[None]:
    """Temporarily set values of variables of a Pyomo model."""
    before = ComponentMap((var, var.value) for var in values)
    try:
        for var, value in values.items():
            var.set_value(value, skip_validation=True)
        yield
    finally:
        for var, value in before.items():
            var.set_value(value, skip_validation=True)


@contextmanager
def _relaxed(model: Any, relax: bool) -> Iterator[None]:
    """Temporarily relax the integrality of a Pyomo model."""
    if not relax:
        yield
        return
    transformation = TransformationFactory("core.relax_integer_vars")
    transformation.apply_to(model)
    try:
        yield
    finally:
        transformation.apply_to(model, undo=True)
