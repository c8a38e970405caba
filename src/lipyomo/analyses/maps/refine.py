"""Maps with adaptive cells: those whose interval is not good enough are bisected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Unpack

import numpy as np
import numpy.typing as npt

from lipyomo.analyses.maps.cells import Cells, halved_cells
from lipyomo.analyses.maps.ends import LEVELS, Ends, joined_ends
from lipyomo.analyses.maps.result import CellMap, statuses
from lipyomo.analyses.maps.run import MapKeywords, MapSettings, cells_for, over_all
from lipyomo.analyses.maps.stages import Constants, Job, Quantity, answers, shares
from lipyomo.analyses.maps.store import check_new_map, finished_map, store_of
from lipyomo.analyses.maps.values import quantity
from lipyomo.base.arguments import real_number, whole_number
from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import MethodError
from lipyomo.base.system.outputs import OutputError
from lipyomo.base.system.parallel import Workers
from lipyomo.problems.domains import Box
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.problems.result import Progress, Status
from lipyomo.problems.settings import changed, takes

GLANCE = 16
"""Most boxes for a cell, before the cell itself is bisected."""


@takes(MapKeywords)
def refine_cells(
    problem: LipschitzProblem,
    cells: Cells | Iterable[Box] | npt.ArrayLike | str | PathLike[str] | int | tuple[int, ...],
    until: float,
    settings: MapSettings | None = None,
    out: str | PathLike[str] | None = None,
    *,
    largest: bool = False,
    most: int = 100_000,
    of: str = Constants.name,
    **changes: Unpack[MapKeywords],
) -> CellMap:
    """Make a map whose cells are bisected along their longest edges until each has a small gap.

    Each cell is bounded with little effort, so cells become small where the constant is hard to
    bound.

    Parameters
    ----------
    problem, cells, settings
        See `map_cells`; these are the initial cells.
    until : float
        Relative gap at which a cell is not bisected further; in (0, 1).
    out : path, optional
        A new ``.npz``, ``.csv`` or ``.jsonl`` file, which is written at the end.
    largest : bool, optional
        Whether the gap is only required of the largest constant of all cells.
    most : int, optional
        Number of cells at which to stop.
    of : {'constants', 'values'}, optional
        See `map_cells`.
    **changes
        Fields of `MapSettings`.

    Returns
    -------
    CellMap
        It has no grid.  Cells that are too small to be bisected, or left when there are `most`
        cells, have the status ``bounds``.

    Raises
    ------
    LipyomoError
        See `map_cells`; also if cells with the problem's norms cannot be bounded together.
    """
    if not 0 < real_number(until, "until", MethodError) < 1:
        raise MethodError(f"until must be in (0, 1), not {until}")
    whole_number(most, "the most cells", MethodError, least=1)
    if out is not None:
        check_new_map(out)
    chosen = changed(MapSettings, settings, changes)
    clock = Clock(chosen.time_limit, chosen.should_stop)
    start = cells_for(problem, cells)
    kind = quantity(of)
    over = over_all(problem, start, kind)
    scale = kind.scale_of(over, start)
    asked = kind(over, until, GLANCE, scale=scale)
    if not asked.able:
        raise MethodError(
            f"cells cannot be refined in the norms {over.describe_norms()}.  Remedy: map_cells"
        )
    whole = asked.everywhere(clock.left) if chosen.limited else math.inf
    known = np.full(len(start), whole)
    low, high = start.lower, start.upper
    finest = 2.0**-LEVELS * float((high - low).max())
    kept: list[tuple[FloatArray, FloatArray, Ends]] = []
    count, best = len(start), 0.0
    with chosen.pool(len(start)) as pool:
        while len(low):
            ends = _bounded(pool, asked, low, high, clock)
            ends = replace(ends, upper=np.minimum(ends.upper, known))
            best = max(best, float(ends.lower.max()))
            lower = np.full(len(low), best) if largest else ends.lower
            good = ends.upper - lower <= until * np.maximum(ends.upper, scale)
            count += int((~good).sum())
            good |= (high - low).max(axis=1) <= finest
            good |= clock.expired or count > most
            kept.append((low[good], high[good], ends.take(np.flatnonzero(good))))
            if chosen.progress is not None:
                top = max(best, float(ends.upper.max()))
                chosen.progress(Progress(clock.seconds, best, top, count, f"{count} cells"))
            low, high = halved_cells(low[~good], high[~good])
            known = np.tile(ends.upper[~good], 2)
    found = _joined(over, kept, until, clock, best if largest else 0.0, scale)
    found = replace(found, of=kind.name, scale=scale, whole=whole)
    try:
        with store_of(out, over, found.cells, until, chosen.time_limit, kind) as store:
            return finished_map(store, found)
    except OutputError as error:  # for example, the disk became full meanwhile
        return replace(found, unwritten=str(error))


def _bounded(
    pool: Workers[Job, Ends], asked: Quantity, low: FloatArray, high: FloatArray, clock: Clock
) -> Ends:
    """Bound each cell with little effort."""
    parts = shares(len(low), pool.count)
    found = dict(
        answers(pool, asked.bound, (Job(low[part], high[part], clock.left) for part in parts))
    )
    return joined_ends([found[number] for number in sorted(found)])


def _joined(
    over: LipschitzProblem,
    kept: Sequence[tuple[FloatArray, FloatArray, Ends]],
    until: float,
    clock: Clock,
    best: float,
    scale: float,
) -> CellMap:
    low, high, parts = zip(*kept, strict=True)
    cells, ends = Cells(np.concatenate(low), np.concatenate(high)), joined_ends(parts)
    end = Status.TIME_LIMIT if clock.expired else Status.BOUNDS
    end = Status.INTERRUPTED if clock.interrupted else end
    status = statuses(ends.lower, ends.upper, until, end, scale)
    near = ends.upper - best <= until * np.maximum(ends.upper, scale)
    status[near & (status == end.value)] = Status.GAP.value
    known = ends.lower, ends.upper, status, ends.points, clock.seconds, until
    return CellMap(over, cells, *known, witness_rest=ends.rests)
