"""How far above the cutoff boxes are closed otherwise than by halving: what a search learns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

BOUNDED, CLOSED = "boxes_bounded", "boxes_closed"
"""Counters of boxes that had semidefinite bounds, and of those that these closed."""

EXAMINED, ENDED = "boxes_examined", "boxes_ended"
"""Counters of boxes that the search of phases has examined, and of those that this closed."""


@dataclass(frozen=True)
class Reach:
    """Multiples of the cutoff up to which bounds of boxes are near.

    Attributes
    ----------
    bounded : float
        For a semidefinite bound.
    handed : float
        For the search of phases.
    """

    bounded: float
    handed: float

    def after(self, counters: Mapping[str, int]) -> Reach:
        """The same after what the counters say of some boxes."""

        def moved(reach: float, tried: str, met: str) -> float:
            return learnt(reach, counters.get(tried, 0), counters.get(met, 0))

        return Reach(
            moved(self.bounded, BOUNDED, CLOSED),
            moved(self.handed, EXAMINED, ENDED),
        )


def learnt(reach: float, tried: int, met: int) -> float:
    """A multiple after so many more boxes up to it were tried, and so many of them closed.

    It stays where it is once one box in three is closed: a failure costs about as much as halving a
    few times, and what is closed would have been a tree of halves.
    """
    if not tried:
        return reach
    share = (3.0 * met - tried) / tried
    moved = (reach - 1.0) * math.exp(share * tried / (tried + 4.0))
    return 1.0 + min(max(moved, 0.01), 15.0)
