"""A common interface to HiGHS, Gurobi, CPLEX, CBC and SCIP for any Pyomo model.

>>> from lipyomo.solvers import SolverOptions, solve_model
>>> outcome = solve_model(model, "auto", SolverOptions(time_limit=60))  # doctest: +SKIP
>>> outcome.status, outcome.incumbent, outcome.bound  # doctest: +SKIP

The adapters are `SolverBase` subclasses of ``pyomo.contrib.solver``; `solve_model` adds the choice
of the solver (``solvers.toml``) and normalised results.  They are registered in Pyomo's
``SolverFactory`` as ``lipyomo_highs``, ``lipyomo_gurobi`` and so on.  The solvers' own packages are
imported at first use.
"""

from __future__ import annotations

from lipyomo.base.arguments import renamed_names
from lipyomo.base.system import (  # before any of Pyomo
    pyomo_without_statistics as pyomo_without_statistics,
)
from lipyomo.solvers.factory import register
from lipyomo.solvers.options import SolverOptions
from lipyomo.solvers.outcome import SolveOutcome
from lipyomo.solvers.registry import (
    Choice,
    SolverRow,
    available_solvers,
    choose_solver,
    get_solver,
    solver_table,
)
from lipyomo.solvers.settings import SolverSettings, load_settings
from lipyomo.solvers.solve import solve_model
from lipyomo.solvers.status import SolveProgress, SolveStatus

__all__ = [
    "Choice",
    "SolveOutcome",
    "SolveProgress",
    "SolveStatus",
    "SolverOptions",
    "SolverRow",
    "SolverSettings",
    "available_solvers",
    "choose_solver",
    "get_solver",
    "load_settings",
    "solve_model",
    "solver_table",
]


__getattr__ = renamed_names(__name__, {"Progress": "SolveProgress"})

register()
