"""The numbers that the search for points is tuned by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Params:
    """What the numbers of the search trade; those in brackets made no difference when tried.

    Attributes
    ----------
    work : float
        Multiplications of a whole search by default: time against a weaker lower end.
    poll_work : float
        Most that a generation of children may cost: large networks have fewer (16 at least); and
        what is done between two looks at the clock.
    population : int
        Points of an archive or population, and ascents of a turn (24 to 48).
    children : int
        Most points of a generation, and kinks that are crossed from one point (128 to 512).
    ascent_steps : int
        Steps of an ascent: fewer end on lower hills, more take from other turns.
    cooling : float
        How much the temperature and the steps fall in an ascent.
    rim : float
        Points stay this share of the domain's width away from its faces: they must be interior.
    walks : int
        Walks that set out at a time, fewer in large networks.
    flips, together : int
        Flips of a pattern that are tried at once; and in wide networks the most that are tried
        together (with 2 instead of 4 they climb half as fast).
    region_points : int
        Evaluations that finding a point of one of many regions counts as; ten times as many where
        inputs are many, and six times where a linear program looks for it (2 to 6).
    quick : int
        How many times shorter the search is before any bound is known, and within a tree; and what
        share of the time left it may take (8 to 24).
    deep : float
        A point is deep enough at this share of the largest margin that there can be.
    thin : float
        Margins, in widths of the domain, below which a region counts as empty.
    far : float
        How far regions are looked for where the domain has no end, in units of the points given.
    away : float
        Where inputs are many good points lie in corners of the box; the method begins at so much
        of the way to them (without it a tenth more time).
    nearest : int
        Rows that a region is taken to have at first; all where others cut off what is found
        (without it a tenth more time where inputs are many).
    """

    work: float = 3e9
    poll_work: float = 1e8
    population: int = 32
    children: int = 256
    ascent_steps: int = 40
    cooling: float = 30.0
    rim: float = 1e-6
    walks: int = 4
    flips: int = 12
    together: int = 4
    region_points: int = 40
    quick: int = 12
    deep: float = 0.1
    thin: float = 1e-7
    far: float = 1e4
    away: float = 0.7
    nearest: int = 64


PARAMS = Params()
