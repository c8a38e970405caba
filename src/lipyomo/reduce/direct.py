"""Networks that are asked for directions: their product with the first layer is to be exact."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.arrays import Matrix
from lipyomo.network import Layer, Network
from lipyomo.numerics.exactness import product_is_exact
from lipyomo.reduce.reduction import Reduction
from lipyomo.reduce.units import Counterparts


def separated(network: Network, directions: Matrix) -> Reduction:
    """The network with a first layer whose product with some directions (d, k) does not round.

    Where it would, a layer of identities takes the inputs first.
    """
    first = network.layers[0]
    if product_is_exact(first.weight, directions):
        return Reduction.none(network)
    same: Matrix = sp.eye_array(first.inputs, format="csr")
    if isinstance(first.weight, np.ndarray):
        same = np.eye(first.inputs)
    begun = Layer(same, np.zeros(first.inputs))
    units = Counterparts.same(network, first.inputs)
    return Reduction.to(Network([begun, *network.layers], network.name), units)
