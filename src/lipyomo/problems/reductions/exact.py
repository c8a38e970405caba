"""The reductions that come before any bound: the same function, number for number."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.numerics.exactness import product_is_exact, sum_is_exact
from lipyomo.networks.naming import some
from lipyomo.networks.network import Layer, Network
from lipyomo.problems.domains import Domain
from lipyomo.problems.reductions.merge import fuse, merge
from lipyomo.problems.reductions.reduction import Counterparts, Reduction


def exactly(network: Network, domain: Domain, kept: BoolArray | None = None) -> Reduction:
    """The network without the inputs that cannot move in a domain, fused and merged.

    Of these, inputs that are `kept`, shape (d,), stay.
    """
    frozen = domain.frozen if kept is None else domain.frozen & ~kept
    found = freeze(network, frozen, np.where(frozen, domain.upper, 0.0))
    found = found.then(fuse(found.network))
    return found.then(merge(found.network))


def freeze(
    network: Network, fixed: BoolArray, values: FloatArray, rounding: bool = False
) -> Reduction:
    """The network as a function of the inputs that are not `fixed`.

    Parameters
    ----------
    network : Network
    fixed : ndarray of bool, shape (d,)
    values : ndarray, shape (d,)
        Of the fixed ones.
    rounding : bool, optional
        Whether the biases of the first layer may round.  By default the function stays the same
        number for number: where they would, a layer of identities puts the values in their places.
    """
    if not fixed.any():
        return Reduction.none(network)
    first, held, move = network.layers[0], np.flatnonzero(fixed), np.flatnonzero(~fixed)
    weight = first.weight if isinstance(first.weight, np.ndarray) else first.weight.tocsc()
    own, given = weight[:, held], np.asarray(values, dtype=np.float64)[held]
    shift = np.asarray(own @ given)
    exact = product_is_exact(own, given[:, None]) and sum_is_exact(shift, first.bias)
    full = np.where(fixed, values, 0.0)
    if exact or rounding:
        begun = [first.with_map(weight[:, move], first.bias + shift)]
        units = Counterparts.same(network)
    else:
        shape = (first.inputs, move.size)
        places = sp.csr_array((np.ones(move.size), (move, np.arange(move.size))), shape=shape)
        begun = [Layer(places, full), first]
        units = Counterparts.same(network, first.inputs)
    names = some(network.input_names, move)
    small = Network([*begun, *network.layers[1:]], network.name, input_names=names)
    return Reduction(small, ~fixed, full, units)
