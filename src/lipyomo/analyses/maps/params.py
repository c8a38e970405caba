"""All tuning parameters of maps, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.search.engine.params import BUNDLE, HALVED


@dataclass(frozen=True)
class Params:
    """Parameters of maps, and what each trades off.

    Attributes
    ----------
    slack : float
        Relative gap at which a cell counts as closed; it is below the tolerance of `exact`.
    job : int
        Most cells that are bounded together: less overhead per cell against order and memory.
    slice : int
        Number of boxes whose arrays fit into the cache together.
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
    least : int
        Least number of cells in a job if there are several workers, and of initial boxes if there
        is one cell.
    """

    slack: float = CLOSED
    job: int = 4096
    slice: int = BUNDLE
    pattern_work: int = 1 << 21
    tests: int = 64
    samples: int = 4
    effort: int = 400
    levels: int = 32
    glance: int = 16
    inputs: int = HALVED
    least: int = 64


PARAMS = Params()
