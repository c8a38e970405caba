"""The loop over cells: solve, check what the solver claims, cut off what does not count."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lipyomo.certify import interior_point, make_witness
from lipyomo.certify.margin import EMPTY
from lipyomo.encode.cells import Cell
from lipyomo.encode.conflict import conflicting_units
from lipyomo.encode.interval import Narrowing
from lipyomo.encode.model import CellModel
from lipyomo.incumbent import search_incumbent
from lipyomo.network import FloatArray, Pattern
from lipyomo.problem import LipschitzProblem
from lipyomo.settings import Settings
from lipyomo.solvers import SolverOptions, SolveStatus, solve_model
from lipyomo.solvers.status import Progress

SAFETY = 2e-7
"""Relative widening of a solver's dual bound, for its feasibility tolerances."""

TARGET_GAP = 5e-7
"""Relative gap asked of the solver when the exact constant is wanted."""

DOUBT = 1e-6
"""An attained value above a claimed bound by this much (relative) refutes the solver."""

FEW_UNITS = 16
FEW_EVALUATIONS = 2000
"""Points evaluated for the first incumbent when no more than `FEW_UNITS` are undecided."""

INCUMBENT_SECONDS = 5.0
"""Most seconds of the first search."""

MAX_CUTS = 10_000
"""Most no-good cuts in one cell."""


def first_incumbent(
    problem: LipschitzProblem, settings: Settings, state: Narrowing, unstable: int
) -> None:
    """Attain a first value by search, as long as suits the number of undecided units."""
    evaluations = FEW_EVALUATIONS if unstable <= FEW_UNITS else None
    seconds = min(0.2 * state.left, INCUMBENT_SECONDS)
    rng = np.random.default_rng(settings.seed)
    state.attain(search_incumbent(problem, rng, evaluations, seconds)[0])


class CellSearch:
    """Solves cells, the largest bound first, until the interval is closed.

    Parameters
    ----------
    problem : LipschitzProblem
        The original one.
    settings : Settings
    state : Narrowing
    notes : list of str
        Warnings are added here.
    facts : dict
        Formulation, solver and counts are entered here.
    """

    def __init__(
        self,
        problem: LipschitzProblem,
        settings: Settings,
        state: Narrowing,
        notes: list[str],
        facts: dict[str, Any],
    ) -> None:
        self.problem, self.settings, self.state = problem, settings, state
        self.notes, self.facts = notes, facts
        self.small = problem.reduced.problem
        self.others = 0.0
        facts.update(models=0, no_good_cuts=0)

    def run(self, cells: list[Cell]) -> None:
        """Solve `cells` (largest bound first)."""
        state = self.state
        # What cells that were solved leave open, above the attained value.
        settled = 0.0
        for position, cell in enumerate(cells):
            ahead = max((other.upper for other in cells[position:]), default=0.0)
            state.bound(max(settled, ahead, state.lower))
            if state.closed or state.out_of_time:
                break
            if not self._beats(cell.upper):
                settled = max(settled, min(cell.upper, state.lower * (1.0 + DOUBT)))
                continue
            rest = cells[position + 1 :]
            self.others = max(settled, max((other.upper for other in rest), default=0.0))
            settled = max(settled, self._solve(cell))
            state.bound(max(self.others, settled, state.lower))
        else:
            state.bound(max(settled, state.lower))

    def _beats(self, upper: float) -> bool:
        """Whether a cell with this bound can still move the interval."""
        return upper > self.state.lower * (1.0 + TARGET_GAP)

    def _options(self) -> SolverOptions:
        gap = self.settings.gap
        left = self.state.left
        return SolverOptions(
            time_limit=max(left, 0.05) if math.isfinite(left) else None,
            threads=self.settings.threads,
            rel_gap=max(TARGET_GAP, 0.9 * gap / (1.0 - gap)),
        )

    def _solve(self, cell: Cell) -> float:
        """Solve one cell; returns an upper bound of what it holds."""
        state = self.state
        network = self.small.network
        model = CellModel(network, cell, self.small.input_norm, self.settings.formulation)
        self.facts["formulation"] = model.encoding
        self.facts["models"] += 1
        upper, floor = cell.upper, 0.0
        for _ in range(MAX_CUTS):
            model.set_cutoff(state.lower)
            outcome = solve_model(
                model.model,
                self.settings.solver,
                self._options(),
                start=self._start(model, cell),
                progress=partial(self._report, upper=upper),
                stop=state,
                settings=self.settings.solvers_file,
            )
            state.nodes += outcome.nodes
            self.facts["solver"] = outcome.solver
            self.notes.extend(outcome.notes)
            if outcome.status is SolveStatus.ERROR:
                self.notes.append(f"{outcome.solver}: {outcome.message}; its bound is not used")
                return max(upper, floor)
            if outcome.status is SolveStatus.INTERRUPTED:
                state.interrupted = True
            claimed = self._safe(outcome.bound)
            if outcome.incumbent is None:
                return max(min(upper, claimed), floor)
            pattern = model.pattern(outcome.solution)
            before = state.lower
            value, certain = self._check(model, cell, pattern)
            if claimed < value * (1.0 - DOUBT):
                self.notes.append(
                    f"{outcome.solver} claims that nothing exceeds {outcome.bound:.9g}, but "
                    f"{value:.9g} is attained: its bound is not used"
                )
                return max(upper, floor)
            upper = min(upper, max(claimed, state.lower))
            if not certain:
                floor = max(floor, value)
            done = not outcome.status.proven or state.out_of_time
            if done or not self._beats(upper) or self._within_gap(upper):
                return max(upper, floor)
            if state.lower > before and claimed <= state.lower * (1.0 + DOUBT):
                return max(upper, floor)
            self.facts["no_good_cuts"] += 1
        return max(upper, floor)

    def _safe(self, bound: float) -> float:
        """A solver's dual bound with room for its tolerances, never below the cut-off."""
        widened = bound + SAFETY * abs(bound) if math.isfinite(bound) else bound
        return max(widened, self.state.lower)

    def _within_gap(self, upper: float) -> bool:
        gap = self.settings.gap
        return gap > 0.0 and upper - self.state.lower <= gap * upper

    def _start(self, model: CellModel, cell: Cell) -> Any:
        """The witness as a start, if it lies in the cell."""
        witness = self.state.witness
        if witness is None:
            return None
        x = witness.x[self.problem.reduced.moving]
        if not bool(cell.domain.contains(x)):
            return None
        return model.start(x, self.small.network.pattern(x))

    def _report(self, report: Progress, upper: float) -> None:
        """Pass a solver's progress on."""
        claimed = min(self._safe(report.bound), upper)
        self.state.bound(max(claimed, self.others, self.state.lower), report.nodes)
        self.state.tell(report.nodes)

    def _check(self, model: CellModel, cell: Cell, pattern: Pattern) -> tuple[float, bool]:
        """Recompute the value of a claimed pattern and cut the pattern off.

        Returns
        -------
        value : float
            Attained, or the norm that the pattern would have (if that is open).
        certain : bool
            Whether the pattern is either attained or proved to be empty.
        """
        network, reduced = self.small.network, self.problem.reduced
        found = interior_point(network, cell.domain, pattern)
        scale = float(np.max(cell.domain.upper - cell.domain.lower))
        if found.margin > 0:
            witness = make_witness(self.problem, reduced.lift_point(found.x))
            if witness is not None:
                self.state.attain(witness)
                model.exclude(pattern)
                return witness.value, True
        if found.is_empty(scale):
            units = conflicting_units(network, cell.domain, cell.bounds, pattern, EMPTY * scale)
            model.exclude(pattern, units)
            return 0.0, True
        model.exclude(pattern)
        self.notes.append("a region is too thin to decide whether it has an interior")
        return self._pattern_value(pattern), False

    def _pattern_value(self, pattern: Pattern) -> float:
        jacobian: FloatArray = self.small.network.jacobian(pattern)
        return self.small.norm_of(jacobian).upper
