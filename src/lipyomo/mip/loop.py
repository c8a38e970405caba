"""The loop over cells: solve, check the solver's claims, cut off invalid patterns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from lipyomo.base.arrays import FloatArray, Pattern
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
from lipyomo.problems.operator_norm import operator_norm
from lipyomo.problems.run import PROVED, Run
from lipyomo.problems.settings import Formulation
from lipyomo.solvers import SolveOutcome, SolverOptions, SolveStatus
from lipyomo.solvers.status import SolveProgress


@dataclass(frozen=True)
class Closed:
    """Upper bounds of cells.

    Attributes
    ----------
    proved : float
        Proved upper bound (of the values above the cutoff).
    claimed : float
        Upper bound that relies on a solver.
    """

    proved: float
    claimed: float


@dataclass(frozen=True)
class LoopCounts:
    """Statistics of the loop.

    Attributes
    ----------
    formulation, solver : str or None
        Of the last model.
    models, no_good_cuts, nodes : int
        Counts.
    probed_unstable : int
        Largest number of unstable units in a cell's model.
    seconds : float
        Time of the solvers.
    basis : str
        The basis of the solvers' bounds.
    doubt : str
        Why the solvers' tolerances matter; empty if they do not.
    distrusted : bool
        Whether the solver failed, or its claim was refuted by an attained value.
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
        """Return the statistics including one more run of a solver."""
        return replace(
            self,
            solver=outcome.solver,
            nodes=self.nodes + outcome.nodes,
            seconds=self.seconds + outcome.seconds,
        )


class CellLoop:
    """Solves cells by decreasing bounds, until the interval is closed.

    Values are in the units of the scaled problem.  Proved bounds are passed to the run; bounds that
    rely on a solver are collected as a claim.

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
        self._root = presolved.root
        self.work = LoopCounts()
        self._claimed = math.inf
        # Cells, vertices and solutions with values up to this one were pruned.
        self._given_up = 0.0

    @property
    def lower(self) -> float:
        """The attained value, in scaled units."""
        return self.units.inward(self.run.lower)

    @property
    def claim(self) -> Claim | None:
        """The solver's claim, if it is better than the proved bound."""
        work = self.work
        if work.distrusted or work.solver is None or not self._claimed < self.run.upper:
            return None
        return Claim(self._claimed, work.solver, work.basis, work.seconds, work.doubt)

    def solve_quickly(self) -> bool:
        """Try one model of the whole problem, with a node limit for easy ones.

        Returns
        -------
        bool
            Whether the problem is solved, or the time is over.
        """
        run, root = self.run, self._root
        if run.closed or run.expired:
            return True
        # With many inputs and few unstable units, or ranges too small for solvers, probing often
        # fixes the units.
        wide = self.small.network.input_dim > root.bounds.unstable
        if self._writable() and not (wide or too_fine(self.small, root, self.lower)):
            nodes = QUICK_NODES * root.bounds.unstable
            claimed = self._modelled(root, Closed(0.0, 0.0), nodes)
            self._bound(Closed(root.upper, claimed))
            if self.work.distrusted or self._done(claimed):
                return True
        return run.expired

    def solve(self, cells: list[Cell], cutoff: float = 0.0) -> None:
        """Solve `cells`, by decreasing bounds, which contain every value above `cutoff`."""
        run, self._given_up = self.run, max(self._given_up, cutoff)
        # Upper bounds of the cells solved so far.
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
        """Pass a bound of all cells to the run, raised to the cutoff used for pruning.

        Cutoffs and values of confirmed patterns are rounded down, so that the norm of a pattern
        may exceed its value by the tolerance of `confirm_pattern`, which is added here.
        """
        proved, claimed = (
            self.units.outward(max(end, self._given_up) * (1.0 + 6.0 * EQUAL))
            for end in (upper.proved, upper.claimed)
        )
        self.run.drop_upper(proved)
        self._claimed = min(self._claimed, claimed)

    def _cutoff(self) -> float:
        """Return the attained value as cutoff, and record it: smaller values are pruned."""
        self._given_up = max(self._given_up, self.lower)
        return self._given_up

    def _beats(self, upper: float) -> bool:
        """Return whether a cell with this bound can still improve the interval."""
        return upper > self.lower * (1.0 + ENOUGH_GAP)

    def _close(self, cell: Cell, others: Closed) -> Closed:
        """Solve one cell, given the bounds of the others."""
        if not self._writable():
            return Closed(cell.upper, cell.upper)
        cell = probed(self.small, cell, self._cutoff(), self.run.clock)
        known = Closed(cell.upper, cell.upper)
        self._bound(_larger(others, known))
        if not self._beats(cell.upper):
            return known
        return Closed(cell.upper, self._modelled(cell, others))

    def _writable(self) -> bool:
        """Return whether there is time to build a model."""
        weights = [layer.weight for layer in self.small.network.layers]
        return self.run.clock.fits(model_seconds(weights))

    def _modelled(self, cell: Cell, others: Closed, nodes: int | None = None) -> float:
        """Return a solver's bound of a cell, within a node limit, at most the proved bound."""
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
        """Return whether a bound of a cell is within the required gap."""
        return not self._beats(upper) or self.settings.within_gap(self.lower, upper)

    def _cut_and_solve(
        self, cell: Cell, model: CellModel, others: Closed, nodes: int | None
    ) -> float:
        """Solve with no-good cuts until the bound is within the gap, or the time is over.

        Returns
        -------
        float
            The solver's bound, widened; the cell's bound if the solver fails or contradicts an
            attained value, and ``work.distrusted`` is then set.
        """
        run, gap = self.run, self.settings.gap
        wanted = max(TARGET_GAP, 0.9 * gap / (1.0 - gap))
        options = SolverOptions(rel_gap=wanted, integrality_tolerance=INTEGRALITY, node_limit=nodes)
        upper, floor = cell.upper, 0.0
        while True:
            model.set_cutoff(self._cutoff())
            progress = partial(self._report, upper=upper, others=others)
            held = self._witness_in(model, cell)
            start = None if held is None else model.start(*held)
            # In hard models the solver's heuristics find better points than the local search.
            quick = nodes is not None
            seconds = SHARE * run.clock.left if quick else math.inf
            how = {"start": start, "progress": progress, "searched": quick}
            outcome = model.solve(run, options, seconds, **how)
            self.work = self.work.after(outcome)
            run.count(self.work.nodes)
            if outcome.status is SolveStatus.INTERRUPTED:
                run.clock.stop()
            claimed = _claimed(outcome)
            attained = 0.0 if held is None else self.lower
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

    def _witness_in(self, model: CellModel, cell: Cell) -> tuple[FloatArray, Pattern] | None:
        """Return the witness's point in the reduced problem, and its pattern.

        None if it is not in the cell, or was cut off, or the cell's functionals do not attain it.
        """
        witness, small = self.run.witness, self.small
        if witness is None or witness.rest is not None:
            return None
        x = self.run.problem.reduced.reduce_point(witness.x)
        pattern = small.network.pattern(x)
        if cell.norm is not small.output_norm:
            jacobian = small.tangent_network.jacobian(pattern)
            value = operator_norm(jacobian, small.norm, cell.norm).value
            if value < self.units.inward(witness.value) * (1.0 - 1e-9):
                return None
        inside = bool(cell.domain.contains(x)) and not model.excludes(pattern)
        return (x, pattern) if inside else None

    def _report(self, report: SolveProgress, upper: float, others: Closed) -> None:
        """Show a solver's progress; its bound is not used before it is checked."""
        live = max(min(report.bound * (1.0 + SAFETY), upper), others.claimed)
        self.run.show(self.units.outward(live), self.work.nodes + report.nodes)

    def _disbelief(self, outcome: SolveOutcome, attained: float) -> str:
        """Return the message why a solver's bound is not used."""
        if outcome.status is SolveStatus.ERROR:
            return f"{outcome.solver}: {outcome.message}; its bound is not used"
        claim, truth = self.units.outward(outcome.bound), self.units.outward(attained)
        return disbelief(outcome.solver, claim, truth)


def _larger(one: Closed, other: Closed) -> Closed:
    return Closed(max(one.proved, other.proved), max(one.claimed, other.claimed))


def _largest(cells: list[Cell]) -> Closed:
    """Return the largest bound of cells that were not solved."""
    upper = max((cell.upper for cell in cells), default=0.0)
    return Closed(upper, upper)


def _claimed(outcome: SolveOutcome) -> float:
    """Return a solver's bound, widened; minus infinity if it claims infeasibility."""
    if outcome.status is SolveStatus.INFEASIBLE:
        return -math.inf
    widened = SAFETY * abs(outcome.bound) if math.isfinite(outcome.bound) else 0.0
    return outcome.bound + widened


def _basis(outcome: SolveOutcome) -> str:
    """Return a description of the basis of a solver's bound."""
    name = f"{outcome.solver} {outcome.version}".strip()
    return f"solver ({name}, tolerance {INTEGRALITY:g}, widened by {SAFETY:g})"
