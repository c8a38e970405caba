"""The adapters under names of Pyomo's ``SolverFactory``: ``lipyomo_highs`` and so on.

Importing `lipyomo.solvers` or `lipyomo.blocks` registers them in both of Pyomo's interfaces, so
that other tools can call them by name: ``gdp.mbigm(solver=SolverFactory("lipyomo_highs"))``,
mpi-sppy, GDPopt and others.  Defaults are those of ``solvers.toml``.
"""

from __future__ import annotations

from typing import Any

from pyomo.contrib.solver.common.base import LegacySolverWrapper
from pyomo.contrib.solver.common.factory import SolverFactory

from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.cbc import Cbc
from lipyomo.solvers.cplex import Cplex
from lipyomo.solvers.gurobi import Gurobi
from lipyomo.solvers.highs import Highs
from lipyomo.solvers.registry import configure
from lipyomo.solvers.scip import Scip
from lipyomo.solvers.settings import load_settings

PREFIX = "lipyomo_"


class Configured(MatrixSolver):
    """An adapter with the settings that ``solvers.toml`` has for it, if it is installed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        settings = load_settings()
        entry = settings.entries.get(self.name.removeprefix(PREFIX))
        if entry is not None and self.available():
            configure(self, entry, settings)


def _classes(kind: type[MatrixSolver]) -> tuple[type, type]:
    """An adapter with its settings, in Pyomo's second and in its first interface.

    They are names of this module, so that they can be pickled.
    """
    told = {"__module__": __name__, "__doc__": f"{kind.title} as ``{PREFIX}{kind.name}``."}
    solver = type(f"Factory{kind.__name__}", (Configured, kind), told)
    legacy = type(f"Legacy{kind.__name__}", (LegacySolverWrapper, solver), told)
    globals().update({solver.__name__: solver, legacy.__name__: legacy})
    return solver, legacy


_ALL = {kind: _classes(kind) for kind in (Highs, Gurobi, Cplex, Scip, Cbc)}


def register() -> None:
    """Enter the adapters into Pyomo's factories; a second call changes nothing."""
    for kind, classes in _ALL.items():
        doc = f"{kind.title}, through the adapter of lipyomo"
        SolverFactory.register(PREFIX + kind.name, doc=doc)(*classes)
