"""Affine layers multiplied into the next ones, without rounding."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.networks.fusing import fused_layers
from lipyomo.networks.network import Network
from lipyomo.problems.reductions.reduction import Reduction
from lipyomo.problems.reductions.units import Counterparts


def fuse(network: Network) -> Reduction:
    """The network as `Network.fused` leaves it.

    Units with two equal slopes, and those without inputs, have no kink any more.
    """
    chain, places = fused_layers(network.layers)
    small = network.with_layers(chain)
    if small is network:
        return Reduction.none(network)
    before = np.cumsum([0, *(layer.units for layer in network.layers)])
    after = np.cumsum([0, *(layer.units for layer in chain)])
    outer: list[IntArray] = [np.zeros(0, dtype=np.intp)]
    inner = outer.copy()
    for i, place in places.items():
        kept = np.flatnonzero(chain[place].bent)
        outer.append(before[i] + kept)
        inner.append(after[place] + kept)
    sides = np.concatenate([np.zeros(0), *(layer.bias for layer in network.hidden)]) > 0
    return Reduction.to(
        small, Counterparts.of(network, np.concatenate(outer), np.concatenate(inner), sides)
    )
