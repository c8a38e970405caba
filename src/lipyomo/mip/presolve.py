"""Presolve: bounds and a primal search before the first model.

Bounds of the pre-activations give a first upper bound, a local search a first lower bound.  Then
the problem is scaled and, unless a first model solves it, the domain is partitioned into cells
while that stabilises enough units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lipyomo.base.clock import PART
from lipyomo.mip.cells import Cell, for_models, partition, whole_cell
from lipyomo.mip.params import SECONDS, SHARE
from lipyomo.mip.scaling import ScaledProblem, scaled
from lipyomo.primal.heuristics.local_search import quick_incumbent
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import Cascade


@dataclass(frozen=True)
class PresolvedModel:
    """The data for the models.

    Attributes
    ----------
    scaled : ScaledProblem
        The scaled reduced problem.
    root : Cell
        The whole scaled problem as a cell.
    """

    scaled: ScaledProblem
    root: Cell


def presolve_model(run: Run) -> PresolvedModel:
    """Bound, search and scale; updates the interval of `run`.

    Parameters
    ----------
    run : Run

    Returns
    -------
    PresolvedModel
    """
    small, settings = for_models(run.problem), run.settings
    root = whole_cell(small, settings.bounds, PART * run.clock.left, lambda: run.expired)
    run.record(interval_bound=root.upper)
    run.drop_upper(root.upper)
    cascade = Cascade(small, root.bounds, clock=run.clock, report=run.drop_upper)
    cascade.run()
    run.drop_upper(cascade.value)
    root = replace(root, upper=min(root.upper, cascade.value))
    clock = run.clock.within(min(SHARE * run.clock.left, SECONDS))
    run.raise_lower(quick_incumbent(run.problem, settings.seed, clock))
    units, root = scaled(small, root, run.lower or root.upper)
    return PresolvedModel(units, root)


def partitioned(run: Run, presolved: PresolvedModel) -> tuple[list[Cell], float]:
    """Partition a problem into cells, by decreasing bounds; updates the interval of `run`.

    Parameters
    ----------
    run : Run
        The problem is only partitioned if the option ``partition`` is True.
    presolved : PresolvedModel

    Returns
    -------
    cells : list of Cell
        Cells that contain every value above the cutoff.
    cutoff : float
        An attained value, in scaled units.
    """
    settings, units, root = run.settings, presolved.scaled, presolved.root
    if not settings.options.get("partition", True):
        return [root], 0.0
    clock = run.clock.within(SHARE * settings.time_limit)
    cutoff = units.inward(run.lower)
    cells = partition(units.problem, root, cutoff, settings.bounds, lambda: clock.expired)
    run.drop_upper(units.outward(max([cutoff, *(cell.upper for cell in cells)])))
    return cells, cutoff
