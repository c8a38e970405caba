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
    first_work : float
        Most that its first points may cost: how soon a large network has any.
    generation_work : float
        Most that a generation of children may cost: large networks have fewer (16 at least).
    fewest : int
        First points in any case.
    population : int
        Points of an archive or population, and ascents of a turn (24 to 48).
    children : int
        Most points of a generation, and kinks that are crossed from one point (128 to 512).
    ascent_steps : int
        Steps of an ascent: fewer end on lower hills, more take from other turns.
    look : int
        Ascents look at their true value once in so many steps, and at the last two: time.
    cooling, shortening : float
        How much the temperature and the steps fall in an ascent.
    momentum : float
        Share of the earlier directions in a step of an ascent.
    rim : float
        Points stay this share of the domain's width away from its faces: they must be interior.
    walks : int
        Walks that set out at a time, fewer in large networks.
    flips : int
        Flips of a pattern that are tried at once.
    region_points : int
        Evaluations that finding a point of one of many regions counts as; ten times as many where
        inputs are many, and six times where a linear program looks for it (2 to 6).
    tried : int
        Patterns that are remembered as tried: memory.
    patience : int
        Turns without gain after which a population is given up.
    turns : int
        Of so many starts one is at random.
    best_functionals : int
        Functionals that generations look at, where the dual ball has more vertices.
    most_functionals : int
        Vertices of a dual ball up to which the gradients of all are computed.
    quick : int
        How many times shorter the search is before any bound is known, and within a tree (8 to 24).
    quick_time : float
        Most of the time left that it may take.
    flip_entries : int
        Units times inputs above which no linear programs are solved: time of one step.
    interior_steps : int
        Most steps of the interior point method that looks for deep points of regions.
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
        Rows that a region is taken to have at first; all where others cut off what is found.
    cached : int
        Entries of the arrays that are worked on at once.
    """

    work: float = 3e9
    first_work: float = 1e9
    generation_work: float = 1e8
    fewest: int = 8
    population: int = 32
    children: int = 256
    ascent_steps: int = 40
    look: int = 3
    cooling: float = 100.0
    shortening: float = 30.0
    momentum: float = 0.7
    rim: float = 1e-6
    walks: int = 4
    flips: int = 12
    region_points: int = 40
    tried: int = 1 << 20
    patience: int = 2
    turns: int = 3
    best_functionals: int = 4
    most_functionals: int = 128
    quick: int = 12
    quick_time: float = 0.1
    flip_entries: int = 1_000_000
    interior_steps: int = 25
    deep: float = 0.1
    thin: float = 1e-7
    far: float = 1e4
    away: float = 0.7
    nearest: int = 64
    cached: int = 1 << 17


PARAMS = Params()
