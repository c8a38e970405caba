"""Presolve: what is found before the first model, from bounds and a search.

Bounds of the pre-activations give a first upper end, a local search a first lower one.  Then the
problem is scaled, and, unless a first model solves it, the domain cut into cells while that decides
enough units.
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
    """What the models are made from.

    Attributes
    ----------
    scaled : ScaledProblem
        The reduced problem in convenient units.
    root : Cell
        All of it, in these units.
    """

    scaled: ScaledProblem
    root: Cell


def presolve_model(run: Run) -> PresolvedModel:
    """Bound, search and scale; the interval of `run` narrows on the way.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Presolved
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
    """The parts of a problem, the largest bound first; the interval of `run` narrows on the way.

    Parameters
    ----------
    run : Run
        Option ``partition`` says whether there is more than one part.
    presolved : PresolvedModel

    Returns
    -------
    cells : list of Cell
        They hold every value above the cutoff.
    cutoff : float
        An attained value, in the units of the scaled problem.
    """
    settings, units, root = run.settings, presolved.scaled, presolved.root
    if not settings.options.get("partition", True):
        return [root], 0.0
    clock = run.clock.within(SHARE * settings.time_limit)
    cutoff = units.inward(run.lower)
    cells = partition(units.problem, root, cutoff, settings.bounds, lambda: clock.expired)
    run.drop_upper(units.outward(max([cutoff, *(cell.upper for cell in cells)])))
    return cells, cutoff
