"""The reductions that come before any bound: the same function, number for number."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import BoolArray
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.reductions.freeze import freeze
from lipyomo.problems.reductions.fuse import fuse
from lipyomo.problems.reductions.merge import merge
from lipyomo.problems.reductions.reduction import Reduction


def exactly(network: Network, domain: Domain, kept: BoolArray | None = None) -> Reduction:
    """The network without the inputs that cannot move in a domain, fused and merged.

    Of these, inputs that are `kept`, shape (d,), stay.
    """
    frozen = domain.frozen if kept is None else domain.frozen & ~kept
    found = freeze(network, frozen, np.where(frozen, domain.upper, 0.0))
    found = found.then(fuse(found.network))
    return found.then(merge(found.network))
