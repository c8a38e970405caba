"""The numbers of this room, in one place."""

from __future__ import annotations

from dataclasses import dataclass


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
    checkpoint_seconds : float
        Until the first checkpoint, whatever is known by then, and at least between two of them:
        work that a crash may lose.
    checkpoint_share : float
        At most one in so many seconds goes into writing them.
    ahead : int
        Tasks that a worker elsewhere has: one is worked on while the next one travels.
    last_seconds : float
        What workers have found so long before the end still arrives, the clock is looked at so
        often while they are waited for, and a stopped search proves what is left for so long.
    proof_margin : float
        After that, floating-point bounds that are lower than the proved end by more than this share
        of it are taken as they are: a long wait against what never was (their rounding is below
        1e-8).
    """

    queue_share: int = 4
    least_queue: int = 1000
    waiting: int = 4
    first_improvement: float = 8.0
    improvement: float = 48.0
    checkpoint_seconds: float = 5.0
    checkpoint_share: float = 100.0
    ahead: int = 2
    last_seconds: float = 0.3
    proof_margin: float = 1e-3
