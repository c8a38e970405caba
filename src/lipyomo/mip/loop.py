"""The loop over cells: solve, check what the solver claims, cut off what does not count."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from lipyomo.base.clock import model_seconds
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.mip.cells import Cell
from lipyomo.mip.claims import Claim, disbelief
from lipyomo.mip.confirmation import confirm_pattern
from lipyomo.mip.model import CellModel
from lipyomo.mip.params import (
    DOUBT,
    ENOUGH_GAP,
    INTEGRALITY,
    QUICK_NODES,
    SAFETY,
    SHARE,
    TARGET_GAP,
)
from lipyomo.mip.presolve import PresolvedModel
from lipyomo.mip.probing import probed
from lipyomo.mip.scaling import too_fine
from lipyomo.mip.witness import WitnessInCells
from lipyomo.problems.run import PROVED, Run
from lipyomo.problems.settings import Formulation
from lipyomo.solvers import SolveOutcome, SolverOptions, SolveStatus
from lipyomo.solvers.status import Progress


@dataclass(frozen=True)
class Closed:
    """What is known of a cell when the loop leaves it.

    Attributes
    ----------
    proved : float
        No value in the cell is larger (up to values that do not matter any more).
    claimed : float
        The same on a solver's word.
    """

    proved: float
    claimed: float


@dataclass(frozen=True)
class LoopCounts:
    """What was done so far.

    Attributes
    ----------
    formulation, solver : str or None
        Of the last model.
    models, no_good_cuts, nodes : int
        Counts.
    probed_unstable : int
        Most units that were undecided in a cell when its model was made.
    seconds : float
        Of the solvers.
    basis : str
        What the solvers' bounds rest on.
    doubt : str
        Why the solvers' tolerances matter; empty if they do not.
    distrusted : bool
        Whether the solver failed, or was refuted by what is attained.
    """

    formulation: str | None = None
    solver: str | None = None
    models: int = 0
    no_good_cuts: int = 0
    nodes: int = 0
    probed_unstable: int = 0
    seconds: float = 0.0
    basis: str = PROVED
    doubt: str = ""
    distrusted: bool = False

    def after(self, outcome: SolveOutcome) -> LoopCounts:
        """With one more run of a solver."""
        return replace(
            self,
            solver=outcome.solver,
            nodes=self.nodes + outcome.nodes,
            seconds=self.seconds + outcome.seconds,
        )


class CellLoop:
    """Solves cells, the largest bound first, until the interval is closed.

    Values are in the units of the scaled problem.  The run is told of what is proved; what rests
    on a solver is a claim.

    Parameters
    ----------
    run : Run
    presolved : PresolvedModel
    formulation : {'auto', 'adjoint', 'tangent'}

    Attributes
    ----------
    work : LoopCounts
    """

    def __init__(self, run: Run, presolved: PresolvedModel, formulation: Formulation) -> None:
        self.run, self.units = run, presolved.scaled
        self.settings, self._formulation = run.settings, formulation
        self.small = presolved.scaled.problem
        self._witness = WitnessInCells(run, self.units)
        self._root = presolved.root
        self.work = LoopCounts()
        self._claimed = math.inf
        # Cells, vertices and solutions that are worth no more than this were given up.
        self._given_up = 0.0

    @property
    def lower(self) -> float:
        """What is attained, in the scaled units."""
        return self._witness.value

    @property
    def claim(self) -> Claim | None:
        """What a solver claims beyond what is proved."""
        work = self.work
        if work.distrusted or work.solver is None or not self._claimed < self.run.upper:
            return None
        return Claim(self._claimed, work.solver, work.basis, work.seconds, work.doubt)

    def solve_quickly(self) -> bool:
        """Try one model, for so many nodes as small models take.

        Returns
        -------
        bool
            Whether nothing is left to do, or to be done in time.
        """
        run, root = self.run, self._root
        if run.closed or run.expired:
            return True
        # Few units of wide networks, and those with ranges that are too fine for solvers, are often
        # decided by probing.
        wide = self.small.network.input_dim > root.bounds.unstable
        if self._writable() and not (wide or too_fine(self.small, root, self.lower)):
            nodes = QUICK_NODES * root.bounds.unstable
            claimed = self._modelled(root, Closed(0.0, 0.0), nodes)
            self._bound(Closed(root.upper, claimed))
            if self.work.distrusted or self._done(claimed):
                return True
        return run.expired

    def solve(self, cells: list[Cell], cutoff: float = 0.0) -> None:
        """Solve `cells` (largest bound first), which hold every value above `cutoff`."""
        run, self._given_up = self.run, max(self._given_up, cutoff)
        # What cells that were solved leave open, above the attained value.
        closed = Closed(0.0, 0.0)
        for position, cell in enumerate(cells):
            self._bound(_larger(closed, _largest(cells[position:])))
            if run.closed_by(min(run.upper, self._claimed)) or run.expired:
                return
            if not self._beats(cell.upper):
                closed = _larger(closed, Closed(cell.upper, cell.upper))
                continue
            others = _larger(closed, _largest(cells[position + 1 :]))
            closed = _larger(closed, self._close(cell, others))
            if self.work.distrusted:
                return
            self._bound(_larger(others, closed))
        self._bound(closed)

    def _bound(self, upper: Closed) -> None:
        """Tell the run of a bound of all cells, given that some were only bounded by a cutoff.

        Cutoffs and values of confirmed patterns are rounded down, so that the norm of a pattern
        that attains one may be above it by as much as `confirm_pattern` allows for.
        """
        proved, claimed = (
            self.units.outward(max(end, self._given_up) * (1.0 + 6.0 * EQUAL))
            for end in (upper.proved, upper.claimed)
        )
        self.run.drop_upper(proved)
        self._claimed = min(self._claimed, claimed)

    def _cutoff(self) -> float:
        """What is attained: no greater values need to be looked for."""
        self._given_up = max(self._given_up, self.lower)
        return self._given_up

    def _beats(self, upper: float) -> bool:
        """Whether a cell with this bound can still move the interval."""
        return upper > self.lower * (1.0 + ENOUGH_GAP)

    def _close(self, cell: Cell, others: Closed) -> Closed:
        """Solve one cell, given what the others may hold."""
        if not self._writable():
            return Closed(cell.upper, cell.upper)
        cell = probed(self.small, cell, self._cutoff(), self.run.clock)
        known = Closed(cell.upper, cell.upper)
        self._bound(_larger(others, known))
        if not self._beats(cell.upper):
            return known
        return Closed(cell.upper, self._modelled(cell, others))

    def _writable(self) -> bool:
        """Whether there is time to write a model."""
        weights = [layer.weight for layer in self.small.network.layers]
        return self.run.clock.fits(model_seconds(weights))

    def _modelled(self, cell: Cell, others: Closed, nodes: int | None = None) -> float:
        """What a solver claims of a cell, in so many nodes; no more than what is proved."""
        model = CellModel(self.small, cell, self._formulation)
        self.work = replace(
            self.work,
            formulation=model.encoding,
            models=self.work.models + 1,
            probed_unstable=max(cell.bounds.unstable, self.work.probed_unstable),
        )
        claimed = self._cut_and_solve(cell, model, others, nodes)
        if claimed < cell.upper:
            doubt = self.work.doubt or too_fine(self.small, cell, self.lower)
            self.work = replace(self.work, doubt=doubt)
        return min(claimed, cell.upper)

    def _done(self, upper: float) -> bool:
        """Whether a bound of a cell is all that is asked for."""
        return not self._beats(upper) or self.settings.within_gap(self.lower, upper)

    def _cut_and_solve(
        self, cell: Cell, model: CellModel, others: Closed, nodes: int | None
    ) -> float:
        """Solve until the incumbent counts or nothing better is left, or time is over.

        Returns
        -------
        float
            The solver's bound, widened; the cell's if the solver's claims contradict what is
            attained, and ``work.distrusted`` then says so.
        """
        run, gap = self.run, self.settings.gap
        wanted = max(TARGET_GAP, 0.9 * gap / (1.0 - gap))
        options = SolverOptions(rel_gap=wanted, integrality_tolerance=INTEGRALITY, node_limit=nodes)
        upper, floor = cell.upper, 0.0
        while True:
            model.set_cutoff(self._cutoff())
            progress = partial(self._report, upper=upper, others=others)
            start = self._witness.start(model, cell)
            # In hard models the solver's own searches find better points than ours.
            quick = nodes is not None
            seconds = SHARE * run.clock.left if quick else math.inf
            how = {"start": start, "progress": progress, "searched": quick}
            outcome = model.solve(run, options, seconds, **how)
            self.work = self.work.after(outcome)
            run.count(self.work.nodes)
            if outcome.status is SolveStatus.INTERRUPTED:
                run.clock.stop()
            claimed = _claimed(outcome)
            attained = self._witness.value_left(model, cell)
            if outcome.status is not SolveStatus.ERROR and outcome.incumbent is not None:
                pattern = model.pattern(outcome.solution)
                if model.excludes(pattern):
                    run.warn(f"{outcome.solver} returns what was cut off: it is not asked again")
                    self.work = replace(self.work, distrusted=True)
                    return cell.upper
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
                self.work = replace(self.work, distrusted=True)
                return cell.upper
            if claimed < upper:
                upper = claimed
                self.work = replace(self.work, basis=_basis(outcome))
            ended = not outcome.status.proven or outcome.incumbent is None or run.expired
            if ended or self._done(upper):
                break
            self.work = replace(self.work, no_good_cuts=self.work.no_good_cuts + 1)
        return max(upper, floor)

    def _report(self, report: Progress, upper: float, others: Closed) -> None:
        """Pass a solver's progress on; its bound counts only once it is checked."""
        live = max(min(report.bound * (1.0 + SAFETY), upper), others.claimed)
        self.run.show(self.units.outward(live), self.work.nodes + report.nodes)

    def _disbelief(self, outcome: SolveOutcome, attained: float) -> str:
        """Why a solver's bound is not used."""
        if outcome.status is SolveStatus.ERROR:
            return f"{outcome.solver}: {outcome.message}; its bound is not used"
        claim, truth = self.units.outward(outcome.bound), self.units.outward(attained)
        return disbelief(outcome.solver, claim, truth)


def _larger(one: Closed, other: Closed) -> Closed:
    return Closed(max(one.proved, other.proved), max(one.claimed, other.claimed))


def _largest(cells: list[Cell]) -> Closed:
    """What cells that no solver has seen may hold."""
    upper = max((cell.upper for cell in cells), default=0.0)
    return Closed(upper, upper)


def _claimed(outcome: SolveOutcome) -> float:
    """A solver's bound, widened; minus infinity where it says that nothing is feasible."""
    if outcome.status is SolveStatus.INFEASIBLE:
        return -math.inf
    widened = SAFETY * abs(outcome.bound) if math.isfinite(outcome.bound) else 0.0
    return outcome.bound + widened


def _basis(outcome: SolveOutcome) -> str:
    """What a solver's bound rests on."""
    name = f"{outcome.solver} {outcome.version}".strip()
    return f"solver ({name}, tolerance {INTEGRALITY:g}, widened by {SAFETY:g})"
