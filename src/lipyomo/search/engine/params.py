"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass

from lipyomo.base.clock import PAUSE_SHARE
from lipyomo.base.system.parallel import AHEAD
from lipyomo.base.system.processes import PAUSE

BUNDLE = 512
"""Boxes that are bounded together: less overhead a box against order (256 to 1024 alike)."""

HALVED = 10
"""Inputs up to which halving boxes leads far."""


@dataclass(frozen=True)
class Params:
    """What each number trades, and within which range it does not matter.

    Attributes
    ----------
    queue_share : int
        Waiting nodes may take one in so many bytes of the machine's memory, or of a limit if one is
        set; then the search goes depth first, which keeps few nodes and splits more.
    least_queue : int
        Nodes that may wait in any case.
    waiting : int
        Nodes that wait, for each worker and each node of its batch, and the part of a batch that
        is taken however few wait: larger batches cost less each, but what the best nodes tell comes
        too late for the others (2 to 4 are alike).  Heuristics begin in so many batches' nodes.
    first_improvement, improvement : float
        Primal heuristics run after so much work, in nodes of the common size, and then again and
        again: incumbents against time (half and twice as often are alike).
    ahead : int
        Tasks that a worker elsewhere has: one is worked on while the next one travels.
    checkpoint_seconds : float
        Until the first checkpoint, whatever is known by then, and at least between two of them:
        work that a crash may lose.
    checkpoint_share : float
        Most of the time that goes into writing them.
    proof_margin : float
        When a stopped search has proved what is left for a moment, bounds in floating point that
        are lower than the proved end by more than this share of it are taken as they are: a long
        wait against what never was (their rounding is below 1e-8).
    """

    queue_share: int = 4
    least_queue: int = 1000
    waiting: int = 4
    first_improvement: float = 8.0
    improvement: float = 48.0
    ahead: int = AHEAD
    checkpoint_seconds: float = PAUSE
    checkpoint_share: float = PAUSE_SHARE
    proof_margin: float = 1e-3
