"""All tuning parameters of maps, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.base.system.memory import CACHED
from lipyomo.search.engine.params import BUNDLE, HALVED


class Params(NamedTuple):
    """Parameters of maps, and what each trades off.

    Attributes
    ----------
    slack : float
        Relative gap at which a cell counts as closed; it is below the tolerance of `exact`.
    job : int
        Most cells that are bounded together: less overhead per cell against order and memory.
    slice : int
        Most boxes that are bounded at a time: less overhead per box against cache.
    slice_bytes : int
        Bytes of their largest array: likewise, and against the time until a limit is noticed.
    pattern_work : int
        A box is bisected if all its patterns would take more multiplications than this: needless
        norms against boxes.
    tests : int
        Most patterns of a box that are tested for an interior; with more, the box is bisected.
    samples : int
        Points of a box at which the network is evaluated: lower ends against time.
    effort : int
        Most boxes for a cell, before branch and bound decides it.
    levels : int
        Most consecutive bisections of a cell, or of an edge of a refined one: where kinks meet in a
        point, bisection would not end.
    glance : int
        Most boxes for a cell of a refined map, before the cell itself is bisected.
    inputs : int
        Most inputs for which boxes are bisected and patterns tested; with more this hardly pays.
    whole : float
        Share of the time limit for a bound of all cells together, for those not reached in time.
    least : int
        Least number of cells in a job if there are several workers, and of initial boxes if there
        is one cell.
    """

    slack: float = CLOSED
    job: int = 4096
    slice: int = BUNDLE
    slice_bytes: int = 4 * CACHED
    pattern_work: int = 1 << 21
    tests: int = 64
    samples: int = 4
    effort: int = 400
    levels: int = 32
    glance: int = 16
    inputs: int = HALVED
    whole: float = 0.25
    least: int = 64


PARAMS = Params()
