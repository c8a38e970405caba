"""What a search did, and what its root was worth."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """What the search did.

    Attributes
    ----------
    nodes : int
        Nodes that were split.
    semidefinite, newton : int
        Semidefinite bounds, and Newton steps in all of them.
    programs : int
        Linear programs.
    empty : int
        Nodes without interior.
    fixed : int
        Units decided because the other side cannot beat the incumbent.
    unresolved : int
        Regions of full patterns too thin to tell whether they have interior.
    """

    nodes: int = 0
    semidefinite: int = 0
    newton: int = 0
    programs: int = 0
    empty: int = 0
    fixed: int = 0
    unresolved: int = 0

    def __add__(self, other: Counters) -> Counters:
        mine, more = vars(self), vars(other)
        return Counters(**{name: mine[name] + more[name] for name in mine})
