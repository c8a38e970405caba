"""All tuning parameters of the engine, in one place."""

from __future__ import annotations

from typing import NamedTuple

from lipyomo.base.clock import PAUSE_SHARE
from lipyomo.base.system.parallel import AHEAD
from lipyomo.base.system.processes import PAUSE

BUNDLE = 512
"""Boxes that are bounded together.  Larger batches have less overhead per box, but follow the
best-first order less closely (256 to 1024 perform alike)."""

HALVED = 10
"""Largest number of inputs for which bisecting boxes pays."""


class Params(NamedTuple):
    """Parameters of the engine: what each trades off, and the range in which it does not matter.

    Attributes
    ----------
    queue_share : int
        Open nodes may take 1 / `queue_share` of the machine's memory (or of the limit, if one is
        set); beyond that the search goes depth first, which keeps fewer nodes but splits more.
    least_queue : int
        Number of open nodes that is allowed in any case.
    waiting : int
        A batch takes at most one in `waiting` of a worker's share of the open nodes, but at least
        1 / `waiting` of a full batch if there are enough.  Larger batches cost less per node, but
        what their best nodes find comes too late for the others (2 to 4 perform alike).  Heuristics
        start from the best `waiting` batches of nodes.
    first_improvement, improvement : float
        Work, in nodes of the common size, before the primal heuristics first run and between their
        later runs: incumbents against time (half and twice as often perform alike).
    ahead : int
        Tasks assigned to each remote worker: it works on one while the next one is in transit.
    checkpoint_seconds : float
        Time until the first checkpoint, and the least time between two: how much work a crash may
        lose.
    checkpoint_share : float
        Largest share of the time that goes into writing checkpoints.
    proof_margin : float
        A stopped search proves the bounds of its open nodes for a moment.  After that,
        floating-point bounds below the proved upper bound by more than this share of it are
        accepted unproved, which saves a long wait (their rounding error is below 1e-8).
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
