"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass


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
        Boxes whose arrays are in the cache at the same time (512 to 1024 alike).
    most_open, pattern_work : int
        Open units of a box, and multiplications for all their patterns, above which it is halved
        instead: norms in vain against boxes.
    tests : int
        Patterns of a box that are tested for an interior; with more the box is halved first.
    samples : int
        Points of a box at which the network is evaluated: lower ends against time.
    effort : int
        Boxes that a cell may take; then the search decides it.
    levels : int
        Halvings of a cell, one after another; where kinks meet in a point, there is no end.
    glance : int
        Boxes that a cell may take where cells are refined; then it is halved.
    inputs : int
        Inputs up to which boxes are halved, and patterns tested: with more, that does not lead far.
    entries : int
        Numbers of the arrays with which norms are computed: they are in the cache.
    steps : int
        Newton steps of a test; what is open then is left to the search.
    """

    slack: float = 9e-7
    job: int = 4096
    slice: int = 512
    most_open: int = 10
    pattern_work: int = 1 << 21
    tests: int = 64
    samples: int = 4
    effort: int = 400
    levels: int = 32
    glance: int = 16
    inputs: int = 10
    entries: int = 1 << 18
    steps: int = 18

    def share(self, cells: int, workers: int) -> int:
        """Cells of a job, where there are so many for so many workers (0: unknown)."""
        if workers == 1:
            return self.job
        return min(self.job // 4, 1 + cells // (16 * max(workers, 1)))


PARAMS = Params()
