"""The loop over cells: solve, check what the solver claims, cut off what does not count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

from lipyomo.mip.cells import Cell
from lipyomo.mip.confirmation import confirm_pattern
from lipyomo.mip.model import CellModel
from lipyomo.mip.presolve import Presolved
from lipyomo.mip.probing import probed
from lipyomo.mip.scaling import LARGEST, largest_number
from lipyomo.network import FloatArray
from lipyomo.numerics.pace import model_seconds
from lipyomo.operator_norm import operator_norm
from lipyomo.regions.witness import CANCELLED
from lipyomo.result import Witness
from lipyomo.run import PROVED, Run
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

INTEGRALITY = 1e-9
"""How far from an integer a switch may be: with ranges near 1, a big-M row gives way as much."""

DOUBT = 1e-6
"""An attained value above a claimed bound by this much (relative) refutes the solver."""

FALLBACKS = ("highs", "scip", "cbc")
"""Solvers to turn to when one was refuted."""

MAX_CUTS = 10_000
"""Most no-good cuts in one cell."""


@dataclass(frozen=True)
class Closed:
    """What is known of a cell when the loop leaves it.

    Attributes
    ----------
    upper : float
        No value in the cell is larger (up to values that do not matter any more).
    basis : str
        What that rests on.
    """

    upper: float
    basis: str = PROVED


class CellLoop:
    """Solves cells, the largest bound first, until the interval is closed.

    Values are in the units of the scaled problem.

    Parameters
    ----------
    run : Run
    presolved : Presolved

    Attributes
    ----------
    formulation, solver : str or None
        Of the last model.
    models, no_good_cuts, probed_unstable, nodes : int
        Counts.
    """

    def __init__(self, run: Run, presolved: Presolved) -> None:
        self.run, self.units = run, presolved.scaled
        self.settings = run.settings
        self.small = presolved.scaled.problem
        self.refuted: set[str] = set()
        self.formulation: str | None = None
        self.solver: str | None = None
        self.nodes = self.models = self.no_good_cuts = self.probed_unstable = 0
        self._others = 0.0
        self._basis = PROVED
        # Cells, vertices and solutions that are worth no more than this were given up.
        self._given_up = presolved.cutoff

    @property
    def lower(self) -> float:
        """What is attained, in the scaled units."""
        return self.units.inward(self.run.lower)

    def solve(self, cells: list[Cell]) -> None:
        """Solve `cells` (largest bound first)."""
        run = self.run
        # What cells that were solved leave open, above the attained value.
        settled = 0.0
        for position, cell in enumerate(cells):
            ahead = max((other.upper for other in cells[position:]), default=0.0)
            self._bound(max(settled, ahead))
            if run.closed or run.expired:
                return
            if not self._beats(cell.upper):
                settled = max(settled, cell.upper)
                continue
            rest = cells[position + 1 :]
            self._others = max(settled, max((other.upper for other in rest), default=0.0))
            closed = self._close(cell)
            if closed.basis != PROVED:
                self._basis = closed.basis
            settled = max(settled, closed.upper)
            self._bound(max(self._others, settled))
        self._bound(settled)

    def _bound(self, upper: float) -> None:
        """Tell the run of a bound of all cells, given that some were only bounded by a cutoff.

        Cutoffs and values of confirmed patterns are rounded down, so that the norm of a pattern
        that attains one may be above it by as much as `confirm_pattern` allows for.
        """
        bound = max(upper, self._given_up) * (1.0 + 6.0 * CANCELLED)
        self.run.drop_upper(self.units.outward(bound), self._basis)

    def _cutoff(self) -> float:
        """What is attained: no greater values need to be looked for."""
        self._given_up = max(self._given_up, self.lower)
        return self._given_up

    def _beats(self, upper: float) -> bool:
        """Whether a cell with this bound can still move the interval."""
        return upper > self.lower * (1.0 + ENOUGH_GAP)

    def _options(self) -> SolverOptions:
        gap = self.settings.gap
        left = self.run.left
        return SolverOptions(
            time_limit=max(left, 0.05) if math.isfinite(left) else None,
            threads=self.settings.threads,
            rel_gap=max(TARGET_GAP, 0.9 * gap / (1.0 - gap)),
            integrality_tolerance=INTEGRALITY,
        )

    def _close(self, cell: Cell) -> Closed:
        """Solve one cell, with another solver if one contradicts itself."""
        weights = [layer.weight for layer in self.small.network.layers]
        if not self.run.clock.fits(model_seconds(weights)):
            return Closed(cell.upper)
        cell = probed(self.small, cell, self._cutoff(), self.run.clock)
        self._bound(max(self._others, cell.upper))
        if not self._beats(cell.upper):
            return Closed(cell.upper)
        self.probed_unstable = max(cell.bounds.unstable, self.probed_unstable)
        largest = largest_number(self.small, cell, self.lower)
        trusted = largest <= LARGEST
        if not trusted:
            self.run.warn(
                f"the model holds numbers from 1 to {largest:.0e} even after scaling, beyond what "
                "a solver's tolerances allow for: its bound is not used.  Remedy: method bnb"
            )
        solver: str | None = self.settings.solver
        while solver is not None:
            # A new model for each solver: what one has cut off, the next must account for.
            model = CellModel(
                self.small.network, cell, self.small.input_norm, self.settings.formulation
            )
            self.formulation = model.encoding
            self.models += 1
            closed, refuted = self._cut_and_solve(cell, model, solver)
            if refuted is None:
                return closed if trusted else Closed(cell.upper)
            self.refuted.add(refuted)
            solver = None if self.run.expired else self._another_solver()
        return Closed(cell.upper)

    def _another_solver(self) -> str | None:
        """An open-source solver that has not contradicted itself yet."""
        usable = available_solvers(self.settings.solvers_file)
        left = [name for name in FALLBACKS if name in usable and name not in self.refuted]
        return left[0] if left else None

    def _cut_and_solve(
        self, cell: Cell, model: CellModel, solver: str
    ) -> tuple[Closed, str | None]:
        """Solve until the incumbent counts or nothing better is left.

        Returns
        -------
        closed : Closed
        refuted : str or None
            Name of the solver if its claims contradict what is attained; `closed` is then what was
            known before.
        """
        run = self.run
        upper, floor, basis = cell.upper, 0.0, PROVED
        for _ in range(MAX_CUTS):
            model.set_cutoff(self._cutoff())
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
                pattern = model.pattern(outcome.solution)
                found = confirm_pattern(run.problem, cell.domain, cell.bounds, pattern)
                run.raise_lower(found.witness)
                model.exclude(pattern, found.units)
                value = self.units.inward(found.value)
                if found.certain:
                    attained = max(attained, value)
                else:
                    floor = max(floor, value)
                    run.warn("a region is too thin to decide whether it has an interior")
            refuted = attained > 0.0 and claimed < attained * (1.0 - DOUBT)
            if refuted or outcome.status is SolveStatus.ERROR:
                run.warn(self._disbelief(outcome, attained))
                return Closed(cell.upper), outcome.solver
            if claimed < upper:
                upper, basis = claimed, _basis(outcome)
            done = not outcome.status.proven or outcome.incumbent is None or run.expired
            if done or not self._beats(upper) or self._within_gap(upper):
                break
            self.no_good_cuts += 1
        return Closed(max(upper, floor), basis), None

    def _attained_in(self, model: CellModel, cell: Cell) -> float:
        """The witness's value if the model still has to account for it, else zero."""
        x = self._witness_point(cell)
        if x is None or model.excludes(self.small.network.pattern(x)):
            return 0.0
        return self.lower

    def _witness_point(self, cell: Cell) -> FloatArray | None:
        """The witness's point in the reduced problem, if it lies in the cell."""
        witness = self.run.witness
        if witness is None or witness.rest is not None or not self._covers(cell, witness):
            return None
        x = witness.x[self.run.problem.reduced.moving]
        return x if bool(cell.domain.contains(x)) else None

    def _covers(self, cell: Cell, witness: Witness) -> bool:
        """Whether the functionals that are left in the cell reach the witness's value."""
        if cell.norm is self.small.output_norm:
            return True
        x = witness.x[self.run.problem.reduced.moving]
        jacobian = self.small.network.jacobian(self.small.network.pattern(x))
        found = operator_norm(jacobian, self.small.input_norm, cell.norm)
        return found.value >= self.units.inward(witness.value) * (1.0 - 1e-9)

    def _within_gap(self, upper: float) -> bool:
        gap = self.settings.gap
        return gap > 0.0 and upper - self.lower <= gap * upper

    def _start(self, model: CellModel, cell: Cell) -> Any:
        """The witness as a start, if it lies in the cell and is not cut off."""
        x = self._witness_point(cell)
        if x is None:
            return None
        pattern = self.small.network.pattern(x)
        return None if model.excludes(pattern) else model.start(x, pattern)

    def _report(self, report: Progress, upper: float) -> None:
        """Pass a solver's progress on; its bound counts only once it is checked."""
        live = max(min(report.bound * (1.0 + SAFETY), upper), self._others)
        self.run.show(self.units.outward(live), self.nodes + report.nodes)

    def _disbelief(self, outcome: SolveOutcome, attained: float) -> str:
        """Why a solver's bound is not used."""
        if outcome.status is SolveStatus.ERROR:
            return f"{outcome.solver}: {outcome.message}; its bound is not used"
        claim, truth = self.units.outward(outcome.bound), self.units.outward(attained)
        return (
            f"{outcome.solver} claims that nothing exceeds {claim:.9g}, but {truth:.9g} is "
            "attained: its bound is not used"
        )


def _basis(outcome: SolveOutcome) -> str:
    """What a solver's bound rests on."""
    name = f"{outcome.solver} {outcome.version}".strip()
    return f"solver ({name}, tolerance {INTEGRALITY:g}, widened by {SAFETY:g})"
