"""What a search for points needs of a network on its domain: the kinks that the domain meets.

Units that the domain decides need no flips and no rows.  Those that are off there go, and so do
their weights; the others that are decided become affine, and where that takes less work are
multiplied through (`lipyomo.problems.reductions.presolve`).  That rounds: its points are evaluated
anew.  A trained CNN with 4,804 units, 285 of them open, so becomes a dense network of 400 units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.pace import dense_entries
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, Phases, count_open, flat
from lipyomo.problems.reductions.presolve import multiplied_through, unstable_units, widths_under
from lipyomo.problems.reductions.reduction import Counterparts, Reduction

THINNED = 0.7
"""Largest share of a pass's work that is left where units are multiplied through."""


@dataclass(frozen=True, eq=False)
class Thinned(Reduction):
    """The unstable units that phases leave of a network, but for rounding.

    Attributes
    ----------
    functional : ndarray, shape (m',), or None
        Of the outputs of `network`, in the place of a given one.
    """

    functional: FloatArray | None


def thin(network: Network, functional: FloatArray | None, phases: Phases) -> Thinned:
    """The same on a domain, but for rounding, with the unstable units of `phases` as only kinks.

    Parameters
    ----------
    network : Network
    functional : ndarray, shape (m,), or None
    phases : Phases
        That follow from the domain.
    """
    if count_open(phases) == network.kinked_units:
        return Thinned(**vars(Reduction.none(network)), functional=functional)
    found = _without_decided(network, phases)
    rows = np.eye(network.output_dim) if functional is None else functional[None, :]
    widths = widths_under(network, len(rows), phases)
    if widths is not None:
        entries = sum(a * b for a, b in pairwise([*widths, len(rows)]))
        work = sum(dense_entries(layer.weight) for layer in found.network.layers)
        if entries <= min(THINNED * work, BATCH // 8):
            small = multiplied_through(network, rows, phases)
            found = Reduction.to(small, unstable_units(network, phases, widths))
            functional = None if functional is None else np.ones(1)
    return Thinned(**vars(found), functional=functional)


def _without_decided(network: Network, phases: Phases) -> Reduction:
    """Without the stable units that pass nothing on, and without the kinks of the others."""
    layers, before = [], np.ones(network.input_dim, dtype=bool)
    kept = [np.zeros(0, dtype=bool)]
    for layer, phase in zip(network.hidden, phases, strict=True):
        layer.check_two_slope()
        left = np.where(phase == RIGHT, layer.right, layer.left)
        right = np.where(phase == LEFT, layer.left, layer.right)
        keep = (left != 0) | (right != 0)
        keep[:1] |= not keep.any()
        weight = layer.weight[np.flatnonzero(keep)][:, np.flatnonzero(before)]
        layers.append(Layer(weight, layer.bias[keep], left[keep], right[keep]))
        kept.append(keep)
        before = keep
    head = Layer(network.head.weight[:, np.flatnonzero(before)], network.head.bias)
    small = Network([*layers, head], network.name)
    known, place = flat(phases), np.cumsum(np.concatenate(kept)) - 1
    outer = np.flatnonzero(known == OPEN)
    return Reduction.to(small, Counterparts.of(network, outer, place[outer], known == RIGHT))
