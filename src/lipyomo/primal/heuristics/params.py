"""The tuning parameters of the search for points."""

from __future__ import annotations

from typing import NamedTuple


class Params(NamedTuple):
    """All tuning parameters of the search for points; values in brackets perform alike.

    Attributes
    ----------
    work : float
        The number of multiplications of a whole search by default.
    poll_work : float
        The largest number of multiplications for a generation of children, so that large networks
        have fewer (at least 16), and between two looks at the clock.
    population : int
        The number of points in an archive or population, and of ascents in a turn (24 to 48).
    children : int
        The largest number of points in a generation, and of kinks that are crossed from one point
        (128 to 512).
    ascent_steps : int
        The number of steps of an ascent: fewer end at lower maxima, more leave less time for other
        turns.
    cooling : float
        The factor by which the temperature and the steps decrease in an ascent.
    rim : float
        Points stay away from the faces of the domain, which must not contain them, by this share of
        its width.
    walks : int
        The number of walks that start at a time; fewer in large networks.
    flips, together : int
        The number of flips of a pattern that are tried at once; and, in wide networks, the largest
        number that are combined (with 2 instead of 4, walks climb half as fast).
    region_points : int
        The number of evaluations that finding a point of one of many regions counts as.  It is ten
        times as large with many inputs, and six times as large for a linear program (2 to 6).
    quick : int
        How many times shorter the search is before any bound is known, and within a tree; also the
        inverse of the share of the remaining time that it may take (8 to 24).
    deep : float
        A point is deep enough at this share of the largest possible margin.
    thin : float
        Regions count as empty if their margins, in widths of the domain, are below this.
    far : float
        How far away regions are searched if the domain is unbounded, in units of the given points:
        next regions against numbers of one size (3 to 10 perform alike; 1e4 takes twice as long).
    away : float
        With many inputs, good points lie in corners of the box, and the method starts at this share
        of the way to them (without it, it takes a tenth longer).
    nearest : int
        The number of nearest rows of a region that are used at first; all are used if others cut
        off the point found (without it, it takes a tenth longer with many inputs).
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
    far: float = 10.0
    away: float = 0.7
    nearest: int = 64


PARAMS = Params()
