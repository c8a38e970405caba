"""The mixed-integer model of one cell: objective, cutoff, warm start, pattern, no-good cuts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lipyomo.base.system import (  # before any of Pyomo
    pyomo_without_statistics as pyomo_without_statistics,
)

# isort: split
import pyomo.environ as pyo
from pyomo.common.collections import ComponentMap

from lipyomo.base.arrays import FloatArray, Pattern
from lipyomo.blocks import LipschitzBlock
from lipyomo.blocks.lipschitz import Encoding, choose_encoding
from lipyomo.mip.cells import Cell, excluded
from lipyomo.mip.params import CUTOFF_SLACK
from lipyomo.mip.scaling import with_input_unit
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.run import Run
from lipyomo.problems.settings import Formulation
from lipyomo.solvers import SolveOutcome, SolverOptions, solve_model
from lipyomo.solvers.rows import linear


class CellModel:
    """A Pyomo model that maximises the operator norm over one cell.

    Parameters
    ----------
    problem : LipschitzProblem
        The reduced problem; the output norm is taken from the cell.
    cell : Cell
    formulation : {'auto', 'adjoint', 'tangent'}
    """

    def __init__(self, problem: LipschitzProblem, cell: Cell, formulation: Formulation) -> None:
        self.cell = cell
        self._network = network = problem.network
        self.encoding = encoding = encoding_of(problem, cell, formulation)
        measured, domain, self._unit = with_input_unit(network, cell.domain)
        model = pyo.ConcreteModel(name="lipschitz")
        model.lipschitz = LipschitzBlock()
        model.lipschitz.build_formulation(
            measured,
            domain=domain,
            norm=problem.norm,
            output_norm=cell.norm,
            encoding=encoding,
            bounds=cell.bounds,
            # a cell may be thin where the domain is not
            wrt=range(network.input_dim) if problem.directions is None else None,
            directions=problem.directions,
        )
        self.block = model.lipschitz
        model.constant = pyo.Objective(expr=self.block.value, sense=pyo.maximize)
        model.no_good = pyo.ConstraintList()
        self.model = model
        self._excluded: set[bytes] = set()
        self._switches = [
            (i, k, switch)
            for i in range(len(network.hidden))
            for k, switch in self.block.net.switches(i).items()
        ]

    def solve(
        self, run: Run, options: SolverOptions, seconds: float = math.inf, **how: Any
    ) -> SolveOutcome:
        """Solve with the solver of a run's settings, in the time left.

        Parameters
        ----------
        run : Run
            Receives warnings on skipped solvers.
        options : SolverOptions
            Options of the solve; time limit and threads are replaced by those of the run.
        seconds : float, optional
            Time limit of the solver.
        **how
            Arguments of `lipyomo.solvers.solve_model`: `start`, `progress`, `relax`, `searched`.
        """
        settings, left = run.settings, min(run.clock.left, seconds)
        limit = max(left, 0.05) if math.isfinite(left) else None
        options = replace(options, time_limit=limit, threads=settings.workers)
        how |= {"stop": run.clock, "settings": settings.solvers_file}
        outcome = solve_model(self.model, settings.solver, options, **how)
        run.warn(*outcome.notes)
        return outcome

    def set_cutoff(self, lower: float) -> None:
        """Set a cutoff slightly below `lower`."""
        self.block.value.setlb(lower - CUTOFF_SLACK * abs(lower) if lower > 0 else None)

    def pattern(self, values: Mapping[Any, float]) -> Pattern:
        """Return the activation pattern of a solution, with rounded switches."""
        found: Pattern = self.block.net.pattern(values)
        return found

    def start(self, x: FloatArray, pattern: Pattern) -> ComponentMap:
        """Return inputs and switches as a (partial) warm start."""
        values = ComponentMap()
        for variable, value in zip(
            self.block.net.inputs.values(), (x / self._unit).tolist(), strict=True
        ):
            values[variable] = value
        for i, k, switch in self._switches:
            values[switch] = 1.0 if pattern[i][k] else 0.0
        return values

    def exclude(self, pattern: Pattern, units: list[tuple[int, int]] | None = None) -> None:
        """Add a no-good cut for solutions that agree with `pattern` on `units` (default: all)."""
        self._excluded.add(_key(pattern))
        chosen = None if units is None else set(units)
        coefs, variables, on = [], [], 0
        for i, k, switch in self._switches:
            if chosen is not None and (i, k) not in chosen:
                continue
            bit = bool(pattern[i][k])
            coefs.append(-1.0 if bit else 1.0)
            variables.append(switch)
            on += bit
        if not variables:
            self.model.no_good.add(pyo.Constraint.Infeasible)
            return
        self.model.no_good.add((1.0 - on, linear(coefs, variables), None))

    def excludes(self, pattern: Pattern) -> bool:
        """Return whether this pattern was cut off, or contradicts the cell's bounds."""
        decided = excluded(self._network, self.cell.bounds, pattern)
        return decided or _key(pattern) in self._excluded


def encoding_of(problem: LipschitzProblem, cell: Cell, formulation: Formulation) -> Encoding:
    """Return the encoding for a formulation setting and a cell."""
    if formulation != "auto":
        return formulation
    return choose_encoding(problem.tangent_network, cell.bounds, problem.norm, cell.norm)


def _key(pattern: Pattern) -> bytes:
    return b"".join(on.tobytes() for on in pattern)
