"""Networks that are asked for directions: what the product with the first layer's weight loses."""

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
    """How much the rounding of ``W_1 T`` may change an operator norm of ``J T``; zero if none.

    At most the sum of the absolute terms of all its entries (directions of any unit ball are at
    most one in an entry), each weighted with what the output norm makes of its output.  An entry
    has as many terms as its direction moves inputs.  The sizes of terms round, too: by far less
    than a thousandth.
    """
    if product_is_exact(network.layers[0].weight, directions):
        return 0.0
    terms = int(np.asarray((directions != 0).sum(axis=0)).max())
    reach = np.asarray(abs(directions).sum(axis=1)).reshape(-1)
    outputs = term_sizes(network.layers, reach, constants=False)[-1]
    total = float(outputs @ norm.value(np.eye(outputs.size)))
    return total * gamma(terms) * 1.001


def separated(network: Network) -> Reduction:
    """The network with a layer of identities in front, whose product with directions is exact."""
    first = network.layers[0]
    same: Matrix = sp.eye_array(first.inputs, format="csr")
    if isinstance(first.weight, np.ndarray):
        same = np.eye(first.inputs)
    begun = Layer(same, np.zeros(first.inputs))
    units = Counterparts.same(network, first.inputs)
    return Reduction.to(Network([begun, *network.layers], network.name), units)
