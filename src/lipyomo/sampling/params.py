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
    ascent_cost : float
        Passes that such a step costs, of many points and with fewer digits.
    walks : int
        Walks that set out at a time, fewer in large networks.
    hope : float
        Ascents take a functional e times less often for each such share of the largest norm that
        its own is behind.
    flips, misses : int
        Flips of a pattern that are tried at once, and how often none may exist before a walk ends.
    region_points, program_points : int
        Evaluations that finding a point of one of many regions counts as (ten times as many where
        inputs are many), and a linear program.
    tried : int
        Patterns that are remembered as tried: memory.
    patience : int
        Turns without gain after which a population is given up.
    turns : int
        Of so many starts one is at random.
    best_functionals : int
        Functionals that generations look at, where the dual ball has more vertices.
    quick : int
        How many times shorter the search is before any bound is known.
    quick_time : float
        Most of the time left that it may take.
    flip_entries : int
        Units times inputs above which no linear programs are solved: time of one step.
    """

    work: float = 3e9
    first_work: float = 1e9
    generation_work: float = 1e8
    fewest: int = 8
    population: int = 32
    children: int = 256
    ascent_steps: int = 40
    ascent_cost: float = 3.0
    walks: int = 4
    hope: float = 0.03
    flips: int = 12
    misses: int = 2
    region_points: int = 40
    program_points: int = 256
    tried: int = 1 << 20
    patience: int = 2
    turns: int = 3
    best_functionals: int = 4
    quick: int = 24
    quick_time: float = 0.1
    flip_entries: int = 1_000_000
