"""Rounding of the product of directions with the first layer's weight, and how to avoid it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import Matrix
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.base.numerics.rounding import gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.affine.system import term_sizes
from lipyomo.problems.norms import OutputNorm
from lipyomo.problems.reductions.reduction import Counterparts, Reduction


def product_rounding(network: Network, directions: Matrix, norm: OutputNorm) -> float:
    """Bound the change of an operator norm of ``J T`` by rounding of ``W_1 T``; zero if exact.

    The bound is gamma times the sum of the absolute terms of all entries (vectors of any unit ball
    have entries of at most one), each weighted by the output norm of its unit vector.  An entry has
    as many terms as its direction changes inputs.  The factor 1.001 covers the rounding here.
    """
    if product_is_exact(network.layers[0].weight, directions):
        return 0.0
    terms = int(np.asarray((directions != 0).sum(axis=0)).max())
    reach = np.asarray(abs(directions).sum(axis=1)).reshape(-1)
    outputs = term_sizes(network.layers, reach, constants=False)[-1]
    total = float(outputs @ norm.value(np.eye(outputs.size)))
    return total * gamma(terms) * 1.001


def separated(network: Network) -> Reduction:
    """Put a layer of identities in front, whose product with directions is exact."""
    first = network.layers[0]
    same: Matrix = sp.eye_array(first.inputs, format="csr")
    if isinstance(first.weight, np.ndarray):
        same = np.eye(first.inputs)
    begun = Layer(same, np.zeros(first.inputs))
    units = Counterparts.same(network, first.inputs)
    return Reduction.to(Network([begun, *network.layers], network.name), units)
