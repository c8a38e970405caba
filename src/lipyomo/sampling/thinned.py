"""What a search for points needs of a network on its domain: the kinks that the domain meets.

Units that the domain decides need no flips and no rows.  Those that are off there go, and so do
their weights; the others that are decided become affine, and where that takes less work are
multiplied through (`lipyomo.affine.presolve`).  That rounds: what is found is evaluated elsewhere.
A trained CNN with 4,804 units, 285 of them open, so becomes a dense network of 400 units.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from lipyomo.affine.presolve import multiplied_through, widths_under
from lipyomo.arrays import BoolArray, Matrix
from lipyomo.network import Layer, Network
from lipyomo.phases import LEFT, RIGHT, Phases, count_open
from lipyomo.problem import LipschitzProblem

SPARSE = 10.0
"""Times as long as one of a dense matrix a multiplication with a sparse one takes."""

PAYS = 0.7
"""Largest share of the work that is left where units are worth multiplying through."""

MOST_ENTRIES = 1 << 23
"""Most entries of weights that are made so."""


def thinned(problem: LipschitzProblem, phases: Phases) -> LipschitzProblem:
    """The same on the domain, but for rounding, with the open units of `phases` as only kinks.

    Parameters
    ----------
    problem : LipschitzProblem
        Without frozen inputs.
    phases : Phases
        That follow from its domain.
    """
    if count_open(phases) == problem.network.kinked_units:
        return problem
    network, c = _without_decided(problem.network, phases), problem.functional
    rows = np.eye(network.output_dim) if c is None else c[None, :]
    widths = widths_under(problem.network, len(rows), phases)
    if widths is not None:
        entries = sum(a * b for a, b in pairwise([*widths, len(rows)]))
        if entries <= min(PAYS * _work(network), MOST_ENTRIES):
            network = multiplied_through(problem.network, rows, phases)
            c = None if c is None else np.ones(1)
    return problem.with_network(network, c)


def _without_decided(network: Network, phases: Phases) -> Network:
    """Without the decided units that pass nothing on, and without the kinks of the others."""
    layers, kept = [], np.ones(network.input_dim, dtype=bool)
    for layer, phase in zip(network.hidden, phases, strict=True):
        left = np.where(phase == RIGHT, layer.right, layer.left)
        right = np.where(phase == LEFT, layer.left, layer.right)
        keep = (left != 0) | (right != 0)
        keep[:1] |= not keep.any()
        weight = _part(layer.weight, keep, kept)
        layers.append(Layer(weight, layer.bias[keep], left[keep], right[keep]))
        kept = keep
    head = network.head
    every = np.ones(head.units, dtype=bool)
    return Network([*layers, Layer(_part(head.weight, every, kept), head.bias)], network.name)


def _part(weight: Matrix, rows: BoolArray, columns: BoolArray) -> Matrix:
    """Some rows and columns of a matrix."""
    return weight[np.flatnonzero(rows)][:, np.flatnonzero(columns)]


def _work(network: Network) -> float:
    """What a pass takes, in multiplications with dense matrices."""
    weights = [layer.weight for layer in network.layers]
    return sum(a.size * (1.0 if isinstance(a, np.ndarray) else SPARSE) for a in weights)
