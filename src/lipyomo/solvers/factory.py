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


class FactoryHighs(Configured, Highs):
    """HiGHS as ``lipyomo_highs``."""


class FactoryGurobi(Configured, Gurobi):
    """Gurobi as ``lipyomo_gurobi``."""


class FactoryCplex(Configured, Cplex):
    """CPLEX as ``lipyomo_cplex``."""


class FactoryScip(Configured, Scip):
    """SCIP as ``lipyomo_scip``."""


class FactoryCbc(Configured, Cbc):
    """CBC as ``lipyomo_cbc``."""


class LegacyHighs(LegacySolverWrapper, FactoryHighs):
    """HiGHS in Pyomo's first interface."""


class LegacyGurobi(LegacySolverWrapper, FactoryGurobi):
    """Gurobi in Pyomo's first interface."""


class LegacyCplex(LegacySolverWrapper, FactoryCplex):
    """CPLEX in Pyomo's first interface."""


class LegacyScip(LegacySolverWrapper, FactoryScip):
    """SCIP in Pyomo's first interface."""


class LegacyCbc(LegacySolverWrapper, FactoryCbc):
    """CBC in Pyomo's first interface."""


def register() -> None:
    """Enter the adapters into Pyomo's factories; a second call changes nothing."""
    pairs = (
        (FactoryHighs, LegacyHighs),
        (FactoryGurobi, LegacyGurobi),
        (FactoryCplex, LegacyCplex),
        (FactoryScip, LegacyScip),
        (FactoryCbc, LegacyCbc),
    )
    for solver, legacy in pairs:
        name = PREFIX + solver.name.removeprefix(PREFIX)
        doc = f"{solver.title}, through the adapter of lipyomo"
        SolverFactory.register(name, doc=doc)(solver, legacy)
