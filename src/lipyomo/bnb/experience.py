"""What a search learns on the way: which tests pay, and what became of the units it split.

Everything here counts work and outcomes, never seconds, so that equal searches learn the same.
An `Experience` travels with the nodes to other processes, and what they learn comes back as the
difference.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from lipyomo.network import FloatArray


@dataclass
class Experience:
    """Counts and sums; all of them add up.

    Attributes
    ----------
    bounds, closed_by_bound : int
        Semidefinite bounds, and nodes that they closed.
    programs, empty_by_program : int
        Linear programs, and nodes that they found empty.
    empty : int
        Nodes without interior.
    pointless : int
        Nodes that hold no known point.
    nodes : int
        Nodes that were split.
    probes : int
        Splits tried for the sake of knowledge.
    near, decided : int
        Pre-activation bounds that were near to deciding their units, and how many got there.
    promise, promises : ndarray, shape (N,)
        Sums and numbers of each unit's look-aheads.
    gain, gains : ndarray, shape (N,)
        Sums and numbers of what splits on each unit were worth.
    begun : ndarray, shape (N,)
        Numbers of splits on each unit, those under way included.
    """

    bounds: int
    closed_by_bound: int
    programs: int
    empty_by_program: int
    empty: int
    pointless: int
    nodes: int
    probes: int
    near: int
    decided: int
    promise: FloatArray
    promises: FloatArray
    gain: FloatArray
    gains: FloatArray
    begun: FloatArray

    @classmethod
    def none(cls, units: int) -> Experience:
        """The beginning, for N units."""
        return cls(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, *(np.zeros(units) for _ in range(5)))

    def copy(self) -> Experience:
        """An experience that grows by itself."""
        nothing = Experience.none(self.promise.size)
        nothing.add(self)
        return nothing

    def add(self, other: Experience, sign: int = 1) -> None:
        """Add what another search has learnt (or take it away)."""
        for item in fields(self):
            mine, more = getattr(self, item.name), getattr(other, item.name)
            setattr(self, item.name, mine + sign * more)

    def since(self, before: Experience) -> Experience:
        """What was learnt after `before`."""
        difference = self.copy()
        difference.add(before, -1)
        return difference
