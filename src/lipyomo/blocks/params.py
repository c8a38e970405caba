"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.problems.norms import ONE_BY_ONE


@dataclass(frozen=True)
class Params:
    """What each number trades.

    Attributes
    ----------
    violation : float
        Relative to the range of a unit: lesser violations get no cut, which would change little.
    most_vertices : int
        Of a dual ball whose hull bounds the adjoints, and corners of a box of functionals; the box
        of more is looser and costs nothing.
    ascent_work : int
        Open units times weights for which dual ascent is tried: a third of a second, for smaller
        big-Ms.
    """

    violation: float = 1e-4
    most_vertices: int = ONE_BY_ONE
    ascent_work: int = 10_000_000


PARAMS = Params()
