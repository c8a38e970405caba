"""Four solvers and a fifth, one contract: HiGHS, Gurobi, CPLEX, CBC and SCIP for any Pyomo model.

>>> from lipyomo.solvers import SolverOptions, solve_model
>>> outcome = solve_model(model, "auto", SolverOptions(time_limit=60))  # doctest: +SKIP
>>> outcome.status, outcome.incumbent, outcome.bound  # doctest: +SKIP

The adapters are `SolverBase` subclasses of ``pyomo.contrib.solver``; `solve_model` adds the choice
of the solver (``solvers.toml``) and a normalised view on the results.  They are known to Pyomo's
``SolverFactory`` as ``lipyomo_highs``, ``lipyomo_gurobi`` and so on.  The solvers' own packages are
imported when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lipyomo.solvers.factory import register
from lipyomo.solvers.options import SolverOptions
from lipyomo.solvers.status import Progress, SolveStatus

if TYPE_CHECKING:
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

__all__ = [
    "Choice",
    "Progress",
    "SolveOutcome",
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

_NAMES = {
    "outcome": ("SolveOutcome",),
    "registry": (
        *("Choice", "SolverRow", "available_solvers", "choose_solver", "get_solver"),
        "solver_table",
    ),
    "settings": ("SolverSettings", "load_settings"),
    "solve": ("solve_model",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}


register()


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
