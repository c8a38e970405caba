"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.numerics.rounding import CLOSED
from lipyomo.search.engine.params import BUNDLE, HALVED


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    slack : float
        Relative gap at which a cell counts as closed: below the tolerance of `exact`.
    job : int
        Cells that are bounded together: less overhead a cell against order and memory.
    slice : int
        Boxes whose arrays are in the cache at the same time.
    pattern_work : int
        Multiplications for all patterns of a box above which it is halved instead: norms in vain
        against boxes.
    tests : int
        Patterns of a box that are tested for an interior; with more the box is halved first.
    samples : int
        Points of a box at which the network is evaluated: lower ends against time.
    effort : int
        Boxes that a cell may take; then the search decides it.
    levels : int
        Halvings of a cell, or of an edge of a refined one, one after another; where kinks meet in a
        point, there is no end.
    glance : int
        Boxes that a cell may take where cells are refined; then it is halved.
    inputs : int
        Inputs up to which boxes are halved, and patterns tested: with more, that does not lead far.
    least : int
        Cells of the smallest job of several workers, and boxes to begin with where there is one.
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
