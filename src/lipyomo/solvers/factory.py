"""The adapters in Pyomo's ``SolverFactory``, as ``lipyomo_highs`` and so on.

Importing `lipyomo.solvers` or `lipyomo.blocks` registers them in both of Pyomo's interfaces, so
that other tools can use them by name: ``gdp.mbigm(solver=SolverFactory("lipyomo_highs"))``,
mpi-sppy, GDPopt and others.  Defaults are those of ``solvers.toml``.  The legacy interface accepts
its usual keywords: ``solve(model, tee=True, timelimit=60, mipgap=1e-3, warmstart=True)``.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyomo.contrib.solver.common.base import LegacySolverWrapper
from pyomo.contrib.solver.common.factory import SolverFactory

from lipyomo.base.arguments import number_or_text
from lipyomo.base.errors import SolverError, nearest_name
from lipyomo.solvers.adapter import MatrixSolver
from lipyomo.solvers.cbc import Cbc
from lipyomo.solvers.cplex import Cplex
from lipyomo.solvers.gurobi import Gurobi
from lipyomo.solvers.highs import Highs
from lipyomo.solvers.options import KNOBS, Native, check_knob
from lipyomo.solvers.registry import configure, logger, program_of
from lipyomo.solvers.scip import Scip
from lipyomo.solvers.settings import load_settings

PREFIX = "lipyomo_"

_SAME = (
    "tee", "time_limit", "rel_gap", "abs_gap", "threads", "integrality_tolerance",
    "warmstart_discrete_vars", "raise_exception_on_nonoptimal_result", "symbolic_solver_labels",
    "start", "progress", "stop", "relax",
)  # fmt: skip
_WORDS = {
    **{word: word for word in _SAME},
    "timelimit": "time_limit",
    "mipgap": "rel_gap",
    "mip_gap": "rel_gap",
    "warmstart": "warmstart_discrete_vars",
}
"""Keywords of Pyomo's legacy interface, and their names in the new one."""

_OPTIONS = ("options", "solver_options", "options_string")
_OTHER = (*_OPTIONS, "load_solutions", "logfile", "suffixes")
_NOTHING = ("keepfiles", "solnfile", "writer_config", "solver_io", "io_options", "report_timing")
"""Keywords without a meaning here; only their neutral values are accepted."""


class Configured(MatrixSolver):
    """An adapter configured by its entry in ``solvers.toml``, if it is installed."""

    def __init__(self, **kwargs: Any) -> None:
        settings = load_settings()
        entry = settings.entries.get(self.name.removeprefix(PREFIX))
        if entry is not None:
            kwargs = {**program_of(type(self), entry, settings.source), **kwargs}
        super().__init__(**kwargs)
        # `available` of the legacy interface raises an exception if the solver is not available.
        if entry is not None and super().available():
            configure(self, entry, settings)


class FirstInterface(LegacySolverWrapper, MatrixSolver):
    """Pyomo's legacy interface with its usual keywords, which apply to one call only."""

    def solve(self, model: Any, **words: Any) -> Any:
        """Solve a model.

        Parameters
        ----------
        model : BlockData
        **words
            ``tee``, ``timelimit``, ``mipgap``, ``abs_gap``, ``threads``, ``warmstart`` (from the
            variables' values), ``options`` (the solver's own), ``options_string``, ``logfile``,
            ``suffixes``, ``load_solutions``, ``symbolic_solver_labels``, ``start``, ``progress``,
            ``stop``, ``relax``.

        Returns
        -------
        SolverResults
            If there is no solution, nothing is loaded and a warning is issued; the reason is the
            termination condition.

        Raises
        ------
        SolverError
            If a keyword or its value is wrong; the message suggests the right one.
        """
        for word, value in words.items():
            self._check_word(word, value)
        given = {_WORDS[word]: value for word, value in words.items() if word in _WORDS}
        config = {
            "raise_exception_on_nonoptimal_result": False,
            **{name: value for name, value in given.items() if value is not None},
            "load_solutions": False,
            "solver_options": {**self.config.solver_options.value(), **self._native(words)},
        }
        results = super(LegacySolverWrapper, self).solve(model, **config)
        if words.get("logfile") is not None:
            Path(words["logfile"]).write_text(results.solver_log or "", "utf-8")
        load = words.get("load_solutions") in (None, True)
        if load and results.incumbent_objective is not None:
            results.solution_loader.load_solution()
        elif load:
            load = False
            ended = results.termination_condition.name
            logger.warning(f"{self.name} found no solution ({ended}); nothing was loaded")
        legacy, solution = self._map_results(model, results)
        return self._solution_handler(load, model, results, legacy, solution)

    def _check_word(self, word: str, value: Any) -> None:
        """Raise `SolverError` unless a keyword and its value are valid."""
        if word in _WORDS and _WORDS[word] in KNOBS:
            check_knob(_WORDS[word], value)
        elif word == "suffixes":
            unknown = sorted(set(value or ()) - {"dual", "rc"})
            if unknown:
                raise SolverError(
                    f"suffixes: there is no {unknown[0]!r}.  Remedy: dual and rc, of linear models"
                )
        elif word in _NOTHING:
            if value not in (None, False, {}, "python", "direct"):
                raise SolverError(f"{word}={value!r} has no meaning here.  Remedy: leave it out")
        elif word not in _WORDS and word not in _OTHER:
            known = [*_WORDS, *_OTHER]
            right = nearest_name(word, known, f"one of {', '.join(sorted(known))}", "{}=")
            raise SolverError(f"{self.name} has no word '{word}'.  Remedy: {right}, or options=")

    def _native(self, words: Mapping[str, Any]) -> dict[str, Native]:
        """Return the solver's own options, which `solve_compiled` checks."""
        given = [name for name in _OPTIONS if words.get(name)]
        if len(given) > 1:
            raise SolverError(f"{' and '.join(given)} mean the same.  Remedy: give one of them")
        found = words[given[0]] if given else {}
        if isinstance(found, str):
            pairs = (item.partition("=") for item in shlex.split(found))
            found = {name: number_or_text(text) for name, _, text in pairs}
        if not isinstance(found, Mapping):
            raise SolverError(f"{given[0]} must map names to values, not be {found!r}")
        return dict(found)

    def warm_start_capable(self) -> bool:
        """Return whether ``warmstart=True`` is supported."""
        return True


def _classes(kind: type[MatrixSolver]) -> tuple[type, type]:
    """Create the configured adapter for Pyomo's new and legacy interfaces.

    The classes are globals of this module, so that they can be pickled.
    """
    attributes = {"__module__": __name__, "__doc__": f"{kind.title} as ``{PREFIX}{kind.name}``."}
    solver = type(f"Factory{kind.__name__}", (Configured, kind), attributes)
    legacy = type(f"Legacy{kind.__name__}", (FirstInterface, solver), attributes)
    globals().update({solver.__name__: solver, legacy.__name__: legacy})
    return solver, legacy


_ALL = {kind: _classes(kind) for kind in (Highs, Gurobi, Cplex, Scip, Cbc)}


def register() -> None:
    """Register the adapters in Pyomo's factories; a second call has no effect."""
    for kind, classes in _ALL.items():
        doc = f"{kind.title}, through the adapter of lipyomo"
        SolverFactory.register(PREFIX + kind.name, doc=doc)(*classes)
