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
        Nodes that wait, for each worker and each node of its batch: larger batches cost less each,
        but what the best nodes tell comes too late for the others (2 to 4 are alike).
    at_once : int
        One in so many of those that may be split together are, however few wait (3 to 6 alike).
    first_improvement, improvement : float
        Primal heuristics run after so much work, in nodes of the common size, and then again and
        again: incumbents against time (half and twice as often are alike).
    root_share : float
        Of the time left, at most for those that follow the root.
    seeds : int
        Most nodes that they begin from, among the first ones of the queue.
    first_checkpoint : float
        Seconds until the first checkpoint, whatever is known by then.
    checkpoint_seconds : float
        Between two checkpoints: work that a crash may lose.
    checkpoint_share : float
        At most one in so many seconds goes into writing them.
    ahead : int
        Tasks that a worker elsewhere has: one is worked on while the next one travels.
    last_seconds : float
        What workers have found so long before the end still arrives.
    proof_share : float
        A stopped search proves what is left for so much of its time, and `last_seconds`, more.
    proof_margin : float
        Then floating-point bounds that are lower than the proved end by more than this share of it
        are taken as they are: a long wait against what never was (their rounding is below 1e-8).
    poll_seconds : float
        Between two looks at the clock while a worker is waited for.
    deaths : int
        Deaths of workers in a row after which this process does all tasks.
    """

    queue_share: int = 4
    least_queue: int = 1000
    waiting: int = 3
    at_once: int = 4
    first_improvement: float = 8.0
    improvement: float = 48.0
    root_share: float = 0.1
    seeds: int = 64
    first_checkpoint: float = 5.0
    checkpoint_seconds: float = 120.0
    checkpoint_share: float = 20.0
    ahead: int = 2
    last_seconds: float = 0.3
    proof_share: float = 0.01
    proof_margin: float = 1e-3
    poll_seconds: float = 0.1
    deaths: int = 2
