"""Maps with adaptive cells: those whose interval is not good enough are bisected."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import NamedTuple, Unpack

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
from lipyomo.base.arrays import BoolArray, FloatArray
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
    finest = 2.0**-LEVELS * float(_edges(start).max())
    kept: list[_Some | None] = []
    parts, count, best = start, len(start), 0.0
    with chosen.pool(len(start)) as pool:
        while len(parts):
            ends = _bounded(pool, asked, parts, clock)
            ends = replace(ends, upper=np.minimum(ends.upper, known))
            best = max(best, float(ends.lower.max()))
            lower = np.full(len(parts), best) if largest else ends.lower
            good = ends.upper - lower <= until * np.maximum(ends.upper, scale)
            count += int((~good).sum())
            good |= _edges(parts) <= finest
            good |= clock.expired or count > most
            kept.append(_Some(parts, ends).take(good))
            if chosen.progress is not None:
                top = max(best, float(ends.upper.max()))
                chosen.progress(Progress(clock.seconds, best, top, count, f"{count} cells"))
            if good.all():
                break
            left, known = parts.take(np.flatnonzero(~good)), np.tile(ends.upper[~good], 2)
            parts = Cells(*halved_cells(left.lower, left.upper))
    found = _joined(over, kept, until, clock, best if largest else 0.0, scale)
    found = replace(found, of=kind.name, scale=scale, whole=whole)
    try:
        with store_of(out, over, found.cells, until, chosen.time_limit, kind) as store:
            return finished_map(store, found)
    except OutputError as error:  # for example, the disk became full meanwhile
        return replace(found, unwritten=str(error))


class _Some(NamedTuple):
    """Some cells with their ends."""

    cells: Cells
    ends: Ends

    def take(self, which: BoolArray) -> _Some | None:
        """Select some of them; None for none."""
        index, ends = np.flatnonzero(which), self.ends
        if not index.size:
            return None
        return _Some(self.cells.take(index), ends.take(index))


def _bounded(pool: Workers[Job, Ends], asked: Quantity, cells: Cells, clock: Clock) -> Ends:
    """Bound each cell with little effort."""
    parts = shares(len(cells), pool.count)
    jobs = (Job(cells.lower[part], cells.upper[part], clock.left) for part in parts)
    found = dict(answers(pool, asked.bound, jobs))
    return joined_ends([found[number] for number in sorted(found)])


def _edges(cells: Cells) -> FloatArray:
    """Return the longest edge of each cell, shape (n,)."""
    return np.asarray((cells.upper - cells.lower).max(axis=1))


def _joined(
    over: LipschitzProblem,
    kept: Sequence[_Some | None],
    until: float,
    clock: Clock,
    best: float,
    scale: float,
) -> CellMap:
    some = [part for part in kept if part is not None]
    lower, upper = (
        np.concatenate([getattr(part.cells, name) for part in some]) for name in ("lower", "upper")
    )
    cells = Cells(lower, upper)
    ends = joined_ends([part.ends for part in some])
    end = Status.TIME_LIMIT if clock.expired else Status.BOUNDS
    end = Status.INTERRUPTED if clock.interrupted else end
    status = statuses(ends.lower, ends.upper, until, end, scale)
    near = ends.upper - best <= until * np.maximum(ends.upper, scale)
    status[near & (status == end.value)] = Status.GAP.value
    known = ends.lower, ends.upper, status, ends.points, clock.seconds, until
    return CellMap(over, cells, *known, witness_rest=ends.rests)
