"""Presolve: what is found before the first model, from bounds, a search and a partition.

Bounds of the pre-activations give a first upper end, a local search a first lower one.  Then the
problem is scaled, and the domain cut into cells while that decides enough units.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lipyomo.base.clock import PART
from lipyomo.mip.cells import Cell, for_models, partition, whole
from lipyomo.mip.params import SECONDS, SHARE
from lipyomo.mip.scaling import Scaled, scaled
from lipyomo.primal.heuristics.local_search import quick_incumbent
from lipyomo.problems.run import Run
from lipyomo.relaxations.cascade import Cascade


@dataclass(frozen=True)
class Presolved:
    """What the models are made from.

    Attributes
    ----------
    scaled : Scaled
        The reduced problem in convenient units.
    root : Cell
        All of it, in these units.
    cells : list of Cell
        Its parts, the largest bound first; they hold every value above `cutoff`.
    cutoff : float
        An attained value, in these units.
    """

    scaled: Scaled
    root: Cell
    cells: list[Cell]
    cutoff: float = 0.0


def presolve(run: Run) -> Presolved:
    """Bound, search, scale and cut; the interval of `run` narrows on the way.

    Parameters
    ----------
    run : Run

    Returns
    -------
    Presolved
    """
    small, settings = for_models(run.problem), run.settings
    root = whole(small, settings.bounds, PART * run.left, lambda: run.expired)
    run.record(interval_bound=root.upper)
    run.drop_upper(root.upper)
    cascade = Cascade(small, root.bounds, clock=run.clock, report=run.drop_upper)
    cascade.run()
    run.drop_upper(cascade.value)
    root = replace(root, upper=min(root.upper, cascade.value))
    clock = run.clock.within(min(SHARE * run.left, SECONDS))
    run.raise_lower(quick_incumbent(run.problem, settings.seed, clock))
    units, root = scaled(small, root, run.lower or root.upper)
    cells, cutoff = [root], 0.0
    if settings.options.get("partition", True) and not run.closed:
        clock = run.clock.within(SHARE * settings.time_limit)
        cutoff = units.inward(run.lower)
        cells = partition(units.problem, root, cutoff, settings.bounds, lambda: clock.expired)
        run.drop_upper(units.outward(max([cutoff, *(cell.upper for cell in cells)])))
    run.record(cells=len(cells))
    return Presolved(units, root, cells, cutoff)
