"""The loop over cells: solve, check what the solver claims, cut off what does not count."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from lipyomo.mip.cells import Cell
from lipyomo.mip.conflict import conflicting_units
from lipyomo.mip.model import CellModel
from lipyomo.mip.probe import probed
from lipyomo.network import FloatArray, Pattern
from lipyomo.operator_norm import operator_norm
from lipyomo.regions import interior_point, make_witness
from lipyomo.regions.emptiness import Verdict, examined, is_proved_empty
from lipyomo.regions.margin import EMPTY
from lipyomo.result import Witness
from lipyomo.run import Run
from lipyomo.sampling.local_search import search_incumbent
from lipyomo.solvers import (
    SolveOutcome,
    SolverOptions,
    SolveStatus,
    available_solvers,
    solve_model,
)
from lipyomo.solvers.status import Progress

SAFETY = 2e-7
"""Relative widening of a solver's dual bound, for its feasibility tolerances."""

TARGET_GAP = 5e-7
"""Relative gap asked of the solver when the exact constant is wanted."""

ENOUGH_GAP = TARGET_GAP + 2.0 * SAFETY
"""Relative gap at which a cell is left alone; within what counts as exact."""

DOUBT = 1e-6
"""An attained value above a claimed bound by this much (relative) refutes the solver."""

FEW_UNITS = 16
FEW_EVALUATIONS = 2000
"""Points evaluated for the first incumbent when no more than `FEW_UNITS` are undecided."""

INCUMBENT_SECONDS = 5.0
"""Most seconds of the first search."""

FALLBACKS = ("highs", "scip", "cbc")
"""Solvers to turn to when one was refuted."""

MAX_CUTS = 10_000
"""Most no-good cuts in one cell."""


def first_incumbent(run: Run, unstable: int) -> None:
    """Attain a first value by search, as long as suits the number of undecided units."""
    evaluations = FEW_EVALUATIONS if unstable <= FEW_UNITS else None
    seconds = min(0.2 * run.left, INCUMBENT_SECONDS)
    rng = np.random.default_rng(run.settings.seed)
    run.raise_lower(search_incumbent(run.problem, rng, evaluations, seconds)[0])


class CellSearch:
    """Solves cells, the largest bound first, until the interval is closed.

    Parameters
    ----------
    run : Run

    Attributes
    ----------
    formulation, solver : str or None
        Of the last model.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.problem, self.settings = run.problem, run.settings
        self.small = run.problem.reduced.problem
        self.others = 0.0
        self.refuted: set[str] = set()
        self.formulation: str | None = None
        self.solver: str | None = None
        self.nodes = self.models = self.no_good_cuts = self.probed_unstable = 0

    def solve(self, cells: list[Cell]) -> None:
        """Solve `cells` (largest bound first)."""
        run = self.run
        # What cells that were solved leave open, above the attained value.
        settled = 0.0
        for position, cell in enumerate(cells):
            ahead = max((other.upper for other in cells[position:]), default=0.0)
            run.drop_upper(max(settled, ahead, run.lower))
            if run.closed or run.expired:
                break
            if not self._beats(cell.upper):
                settled = max(settled, min(cell.upper, run.lower * (1.0 + ENOUGH_GAP)))
                continue
            rest = cells[position + 1 :]
            self.others = max(settled, max((other.upper for other in rest), default=0.0))
            settled = max(settled, self._solve(cell))
            run.drop_upper(max(self.others, settled, run.lower))
        else:
            run.drop_upper(max(settled, run.lower))

    def _beats(self, upper: float) -> bool:
        """Whether a cell with this bound can still move the interval."""
        return upper > self.run.lower * (1.0 + ENOUGH_GAP)

    def _options(self) -> SolverOptions:
        gap = self.settings.gap
        left = self.run.left
        return SolverOptions(
            time_limit=max(left, 0.05) if math.isfinite(left) else None,
            threads=self.settings.threads,
            rel_gap=max(TARGET_GAP, 0.9 * gap / (1.0 - gap)),
        )

    def _solve(self, cell: Cell) -> float:
        """Solve one cell; returns an upper bound of what it holds."""
        network = self.small.network
        cell = probed(self.small, cell, self.run.lower, self.run.clock)
        if not self._beats(cell.upper):
            return max(cell.upper, self.run.lower)
        self.probed_unstable = max(cell.bounds.unstable, self.probed_unstable)
        solver: str | None = self.settings.solver
        while solver is not None:
            # A new model for each solver: what one has cut off, the next must account for.
            model = CellModel(network, cell, self.small.input_norm, self.settings.formulation)
            self.formulation = model.encoding
            self.models += 1
            upper, refuted = self._cut_and_solve(cell, model, solver)
            if refuted is None:
                return upper
            self.refuted.add(refuted)
            solver = None if self.run.expired else self._another_solver()
        return cell.upper

    def _another_solver(self) -> str | None:
        """An open-source solver that has not contradicted itself yet."""
        usable = available_solvers(self.settings.solvers_file)
        left = [name for name in FALLBACKS if name in usable and name not in self.refuted]
        return left[0] if left else None

    def _cut_and_solve(self, cell: Cell, model: CellModel, solver: str) -> tuple[float, str | None]:
        """Solve until the incumbent counts or nothing better is left.

        Returns
        -------
        upper : float
            No value in the cell is larger.
        refuted : str or None
            Name of the solver if its claims contradict what is attained; `upper` is then what was
            known before.
        """
        run = self.run
        upper, floor = cell.upper, 0.0
        for _ in range(MAX_CUTS):
            model.set_cutoff(run.lower)
            outcome = solve_model(
                model.model,
                solver,
                self._options(),
                start=self._start(model, cell),
                progress=partial(self._report, upper=upper),
                stop=run.clock,
                settings=self.settings.solvers_file,
            )
            self.nodes += outcome.nodes
            run.nodes = self.nodes
            self.solver = outcome.solver
            run.warn(*outcome.notes)
            if outcome.status is SolveStatus.INTERRUPTED:
                run.clock.stop()
            claimed = outcome.bound
            if outcome.status is SolveStatus.INFEASIBLE:
                claimed = -math.inf
            if math.isfinite(claimed):
                claimed += SAFETY * abs(claimed)
            attained = self._attained_in(model, cell)
            if outcome.status is not SolveStatus.ERROR and outcome.incumbent is not None:
                value, certain = self._check(model, cell, model.pattern(outcome.solution))
                floor = floor if certain else max(floor, value)
                attained = max(attained, value if certain else 0.0)
            refuted = attained > 0.0 and claimed < attained * (1.0 - DOUBT)
            if refuted or outcome.status is SolveStatus.ERROR:
                run.warn(_disbelief(outcome, attained))
                return cell.upper, outcome.solver
            upper = min(upper, max(claimed, run.lower))
            done = not outcome.status.proven or outcome.incumbent is None or run.expired
            if done or not self._beats(upper) or self._within_gap(upper):
                break
            self.no_good_cuts += 1
        return max(upper, floor), None

    def _attained_in(self, model: CellModel, cell: Cell) -> float:
        """The witness's value if the model still has to account for it, else zero."""
        x = self._witness_point(cell)
        if x is None or model.excludes(self.small.network.pattern(x)):
            return 0.0
        return self.run.lower

    def _witness_point(self, cell: Cell) -> FloatArray | None:
        """The witness's point in the reduced problem, if it lies in the cell."""
        witness = self.run.witness
        if witness is None or not self._covers(cell, witness):
            return None
        x = witness.x[self.problem.reduced.moving]
        return x if bool(cell.domain.contains(x)) else None

    def _covers(self, cell: Cell, witness: Witness) -> bool:
        """Whether the functionals that are left in the cell reach the witness's value."""
        if cell.norm is self.small.output_norm:
            return True
        pattern = self.problem.network.pattern(witness.x)
        jacobian = self.problem.network.jacobian(pattern)[:, self.problem.reduced.moving]
        found = operator_norm(jacobian, self.small.input_norm, cell.norm)
        return found.value >= witness.value * (1.0 - 1e-9)

    def _within_gap(self, upper: float) -> bool:
        gap = self.settings.gap
        return gap > 0.0 and upper - self.run.lower <= gap * upper

    def _start(self, model: CellModel, cell: Cell) -> Any:
        """The witness as a start, if it lies in the cell and is not cut off."""
        x = self._witness_point(cell)
        if x is None:
            return None
        pattern = self.small.network.pattern(x)
        return None if model.excludes(pattern) else model.start(x, pattern)

    def _report(self, report: Progress, upper: float) -> None:
        """Pass a solver's progress on; its bound counts only once it is checked."""
        live = min(report.bound * (1.0 + SAFETY), upper)
        self.run.show(max(live, self.others), self.nodes + report.nodes)

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
        witness = None
        if found.margin > 0:
            witness = make_witness(self.problem, reduced.lift_point(found.x))
        verdict = Verdict(False) if witness is not None else examined(network, cell.domain, pattern)
        if verdict.point is not None:
            witness = make_witness(self.problem, reduced.lift_point(verdict.point))
        if witness is not None and witness.value >= self._pattern_value(pattern) * (1.0 - 1e-9):
            self.run.raise_lower(witness)
            model.exclude(pattern)
            return witness.value, True
        if verdict.empty:
            units = conflicting_units(network, cell.domain, cell.bounds, pattern, EMPTY * scale)
            if units is not None:
                asked = [np.zeros(on.shape, dtype=bool) for on in pattern]
                for layer, unit in units:
                    asked[layer][unit] = True
                if not is_proved_empty(network, cell.domain, pattern, asked):
                    units = None
            model.exclude(pattern, units)
            return 0.0, True
        model.exclude(pattern)
        self.run.warn("a region is too thin to decide whether it has an interior")
        return self._pattern_value(pattern), False

    def _pattern_value(self, pattern: Pattern) -> float:
        jacobian: FloatArray = self.small.network.jacobian(pattern)
        return self.small.norm_of(jacobian).upper


def _disbelief(outcome: SolveOutcome, attained: float) -> str:
    """Why a solver's bound is not used."""
    if outcome.status is SolveStatus.ERROR:
        return f"{outcome.solver}: {outcome.message}; its bound is not used"
    return (
        f"{outcome.solver} claims that nothing exceeds {outcome.bound:.9g}, but {attained:.9g} is "
        "attained: its bound is not used"
    )
