"""Regions of several networks with the same inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import Pattern
from lipyomo.base.errors import NetworkError
from lipyomo.base.system.threads import with_one_blas_thread
from lipyomo.networks.combined import side_by_side
from lipyomo.networks.network import Network
from lipyomo.primal.regions.margin import InteriorPoint, interior_point
from lipyomo.problems.domains import Domain


def joint_pattern(networks: Sequence[Network], patterns: Sequence[Pattern]) -> Pattern:
    """Combine patterns of several networks into one of `side_by_side`.

    Parameters
    ----------
    networks : sequence of Network
    patterns : sequence of Pattern
        One for each network.

    Raises
    ------
    NetworkError
        If their numbers differ.
    """
    if len(networks) != len(patterns):
        raise NetworkError(f"{len(patterns)} patterns for {len(networks)} networks")
    depth = max(len(network.hidden) for network in networks)
    padded = [
        [*pattern, *(np.ones(network.output_dim, dtype=bool) for _ in range(depth - len(pattern)))]
        for network, pattern in zip(networks, patterns, strict=True)
    ]
    return tuple(np.concatenate([own[i] for own in padded]) for i in range(depth))


@with_one_blas_thread
def joint_interior_point(
    networks: Sequence[Network], domain: Domain, patterns: Sequence[Pattern]
) -> InteriorPoint:
    """Find an interior point of the region in which every network has its given pattern.

    If two networks are compared in one model, each pattern may have interior while both regions
    only share a face.  Then the value of the model is not attained anywhere.

    Parameters
    ----------
    networks : sequence of Network
    domain : Domain
    patterns : sequence of Pattern
        One for each network, as `ReluNetworkBlock.pattern` reads them from a solved model.

    Returns
    -------
    InteriorPoint
        With a positive margin if there is one.
    """
    both = joint_pattern(networks, patterns)
    return interior_point(side_by_side(networks), domain, both)
