"""Products, squares and quotients of networks."""

from __future__ import annotations

import numpy as np

from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations import Power
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import Trace
from lipyomo.networks.combined import common_inputs
from lipyomo.networks.derivatives.replay import Replay, made
from lipyomo.networks.network import Network, check_network


def product(f: Network, g: Network) -> Network:
    """Return the network ``f g``, output by output; a single output multiplies all others.

    Parameters
    ----------
    f, g : Network
        Networks with the same inputs.

    Raises
    ------
    NetworkError
        If inputs or outputs do not fit together.

    Examples
    --------
    >>> import lipyomo
    >>> f = lipyomo.Network.from_arrays([[[2.0]], [[1.0]]], activation="tanh")
    >>> x = lipyomo.Network.from_arrays([[[1.0]]])
    >>> lipyomo.networks.product(x, x).forward([3.0]).tolist()
    [9.0]
    """
    trace, a, b, like = _both(f, g)
    return made(trace, trace.times(a, b), f"{f.name} * {g.name}", like)


def square(f: Network) -> Network:
    """Return the network ``f**2``, output by output."""
    check_network(f, NetworkError)
    replay = Replay.of(f)
    found = replay.trace.smooth(replay.output, Power(2.0))
    return made(replay.trace, found, f"{f.name}**2", f, f.output_shape)


def quotient(f: Network, g: Network) -> Network:
    """Return the network ``f / g``; its bounds need a domain where g is proved to be nonzero.

    Parameters
    ----------
    f, g : Network
        Networks with the same inputs.

    Raises
    ------
    NetworkError
        If inputs or outputs do not fit together.
    """
    trace, a, b, like = _both(f, g)
    inverse = trace.smooth(b, Power(-1.0))
    return made(trace, trace.times(a, inverse), f"{f.name} / {g.name}", like)


def _both(f: Network, g: Network) -> tuple[Trace, Tensor, Tensor, Network]:
    """Return the outputs of two networks in one trace, and the network with names of inputs."""
    for network in (f, g):
        check_network(network, NetworkError)
    common_inputs(f, g)
    trace = Trace(f.input_dim)
    x = trace.input((f.input_dim,))
    a, b = (Replay(trace, network, x).output for network in (f, g))
    if 1 not in (a.size, b.size) and a.size != b.size:
        raise NetworkError(
            f"{f.name} has {a.size} outputs and {g.name} has {b.size}.  Remedy: give as many, or "
            "one that multiplies all"
        )
    size = max(a.size, b.size)
    left, right = (x.take(np.broadcast_to(x.index, size)) for x in (a, b))
    return trace, left, right, f if f.input_names is not None else g
