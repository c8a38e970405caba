"""Gradients, Jacobians, Hessians and directional derivatives of networks, as networks."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arguments import real_numbers, whole_number
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.derivatives.jets import Jets
from lipyomo.networks.derivatives.replay import Replay, constant, made
from lipyomo.networks.network import Network, check_network


def gradient(net: Network, output: int = 0) -> Network:
    """Return the gradient of an output, as a network from R^d to R^d.

    Parameters
    ----------
    net : Network
        A network with smooth units.
    output : int, optional
        Which output.

    Raises
    ------
    NetworkError
        If units have kinks, or an activation's slope is not supported as an activation.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[3.0]]], activation="tanh")  # 3 tanh(2 x)
    >>> lipyomo.networks.gradient(f).forward([0.0]).tolist()
    [6.0]
    """
    row = np.eye(check_network(net, NetworkError).output_dim)[_output(net, output)]
    replay = Replay.of(net)
    g = replay.adjoints(row)
    return made(replay.trace, g, f"gradient of {net.name}", net, net.input_shape)


def tilted_gradient(net: Network, row: FloatArray, inputs: IntArray, tilt: float = 0.0) -> Network:
    """Return some entries of the gradient of ``row . f(x) + tilt |x|**2 / 2`` as a network.

    Parameters
    ----------
    net : Network
        f.
    row : ndarray, shape (m,)
    inputs : ndarray of int, shape (k,)
        Which entries.
    tilt : float, optional

    Raises
    ------
    NetworkError
        As of `gradient`.
    """
    replay = Replay.of(check_network(net, NetworkError))
    g = replay.adjoints(row)
    if tilt:
        g = g + replay.trace.input((net.input_dim,)).scale(tilt)
    return made(replay.trace, g.take(inputs), f"gradient of {net.name}", net)


def jacobian(net: Network) -> Network:
    """Return the Jacobian as a network from R^d to R^(m d), row by row.

    It is built backwards or forwards, whichever takes fewer products.

    Parameters
    ----------
    net : Network
        A network with smooth units.

    Raises
    ------
    NetworkError
        As for `gradient`.
    """
    m, d = check_network(net, NetworkError).output_dim, net.input_dim
    replay, sizes = Replay.of(net), [layer.units for layer in net.hidden]
    if m * sum(sizes[:-1]) <= d * sum(sizes[1:]):  # products of units
        found = stack([replay.adjoints(row) for row in np.eye(m)])
    else:
        jets = Jets(replay, np.eye(d))
        columns = stack([jets.output((k,)) for k in range(d)])
        found = columns.take(np.arange(m * d).reshape(d, m).T.reshape(-1))
    return made(replay.trace, found, f"Jacobian of {net.name}", net, (m, d))


def hessian(net: Network, output: int = 0) -> Network:
    """Return the Hessian of an output, as a network from R^d to R^(d d), row by row.

    Parameters
    ----------
    net : Network
        A network with smooth units.
    output : int, optional
        Which output.

    Raises
    ------
    NetworkError
        As of `gradient`, or if an activation's second derivative is not supported.
    """
    row, d = _output(check_network(net, NetworkError), output), net.input_dim
    replay = Replay.of(net)
    jets, one = Jets(replay, np.eye(d)), np.array([row])
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    found = stack([jets.output(pair).take(one) for pair in pairs])
    place = np.zeros((d, d), dtype=np.intp)
    for k, (i, j) in enumerate(pairs):
        place[i, j] = place[j, i] = k
    return made(replay.trace, found.take(place.reshape(-1)), f"Hessian of {net.name}", net, (d, d))


def directional(net: Network, v: npt.ArrayLike, order: int = 1) -> Network:
    """Return the derivative of all outputs along a direction, as a network from R^d to R^m.

    Parameters
    ----------
    net : Network
        A network with smooth units.
    v : array_like, shape (d,)
        The direction, which is not normalised.
    order : int, optional
        Order of the derivative, such as 2 for ``v . H v``.

    Raises
    ------
    NetworkError
        As for `hessian`, or if the direction or the order is invalid.
    """
    direction = _direction(check_network(net, NetworkError), v)
    count = whole_number(order, "the order of a derivative", NetworkError, 1)
    replay = Replay.of(net)
    if product_is_exact(net.layers[0].weight, direction[:, None]):
        found = Jets(replay, direction[None]).output((0,) * count)
    else:
        found = _along_axes(Jets(replay, np.eye(net.input_dim)), direction, count)
    return made(replay.trace, found, f"{net.name} along a direction", net, net.output_shape)


def _along_axes(jets: Jets, v: FloatArray, order: int) -> Tensor:
    """Compute a derivative along v from partial ones, so that no product with v rounds."""
    found: Tensor | None = None
    for among in combinations_with_replacement(np.flatnonzero(v).tolist(), order):
        term = jets.output(among)
        ways = math.factorial(order)
        for k in set(among):
            ways //= math.factorial(among.count(k))
        for factor in (float(ways), *v[list(among)].tolist()):
            term = term.scale(factor)
        found = term if found is None else found + term
    if found is None:
        return constant(jets.replay.trace, np.zeros(jets.replay.network.output_dim))
    return found


def _direction(net: Network, v: Any) -> FloatArray:
    found = real_numbers(v, "the direction", NetworkError).reshape(-1)
    if found.size != net.input_dim or not np.isfinite(found).all():
        raise NetworkError(
            f"the direction has {found.size} entries, and should have {net.input_dim} finite ones"
        )
    return found


def _output(net: Network, output: Any) -> int:
    number = whole_number(output, "the output", NetworkError, 0)
    if number >= net.output_dim:
        raise NetworkError(f"there is no output {number}: {net.name} has {net.output_dim} outputs")
    return number
