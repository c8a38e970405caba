"""Several networks over the same inputs: one chain that holds all, and regions of all at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import scipy.sparse as sp

from lipyomo.arguments import instance
from lipyomo.domains import Domain
from lipyomo.errors import NetworkError
from lipyomo.network import Curve, Layer, Network, Pattern
from lipyomo.regions.margin import InteriorPoint, interior_point


def side_by_side(networks: Sequence[Network]) -> Network:
    """One network whose outputs are those of several networks over the same inputs.

    Parameters
    ----------
    networks : sequence of Network
        With the same number of inputs; depths may differ, shallow ones are carried along by
        identity units.

    Returns
    -------
    Network
        Outputs of the first network first.  `Network.with_functional` compares them: rows such as
        ``[1, -1]`` make the difference of two scalar networks.

    Raises
    ------
    NetworkError
        If there are no networks, or their inputs differ in number.

    Examples
    --------
    >>> from lipyomo import Network
    >>> from lipyomo.regions import side_by_side
    >>> one = Network.from_arrays([[[1.0]], [[2.0]]])
    >>> two = Network.from_arrays([[[3.0]]])
    >>> side_by_side([one, two]).forward([1.0])
    array([2., 3.])
    """
    remedy = "give a sequence of Network"
    instance(networks, Sequence, "what stands for networks", NetworkError, remedy)
    for position, network in enumerate(networks):
        instance(network, Network, f"network {position}", NetworkError, remedy)
    if not networks:
        raise NetworkError("no networks were given to put side by side")
    sizes = sorted({network.input_dim for network in networks})
    if len(sizes) > 1:
        raise NetworkError(f"networks side by side need the same inputs, these have {sizes}")
    layers: list[Layer] = []
    widths = [network.output_dim for network in networks]
    for position, group in enumerate(zip_longest(*(network.layers for network in networks))):
        found = [
            Layer(np.eye(width), np.zeros(width)) if layer is None else layer
            for layer, width in zip(group, widths, strict=True)
        ]
        join = sp.vstack if position == 0 else sp.block_diag
        weight = sp.csr_array(join([sp.csr_array(layer.weight) for layer in found]))
        plain = all(isinstance(layer.weight, np.ndarray) for layer in found)
        layers.append(
            Layer(
                weight.toarray() if plain else weight,
                np.concatenate([layer.bias for layer in found]),
                np.concatenate([layer.left for layer in found]),
                np.concatenate([layer.right for layer in found]),
                _joined_curves(found),
            )
        )
    return Network(layers, "+".join(network.name for network in networks))


def _joined_curves(layers: Sequence[Layer]) -> list[Curve]:
    """The smooth units of layers whose units follow each other in one."""
    starts = np.cumsum([0, *(layer.units for layer in layers)]).tolist()
    return [
        Curve(curve.activation, start + curve.units)
        for layer, start in zip(layers, starts, strict=False)
        for curve in layer.curves
    ]


def joint_pattern(networks: Sequence[Network], patterns: Sequence[Pattern]) -> Pattern:
    """The activation pattern of `side_by_side` that belongs to patterns of its networks.

    Parameters
    ----------
    networks : sequence of Network
    patterns : sequence of Pattern
        One a network.

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


def joint_interior_point(
    networks: Sequence[Network], domain: Domain, patterns: Sequence[Pattern]
) -> InteriorPoint:
    """An interior point of the region in which every network has its given pattern.

    Where two networks are compared in one model, each pattern may have interior while both together
    meet in a face only; what the model claims is attained nowhere then.

    Parameters
    ----------
    networks : sequence of Network
    domain : Domain
    patterns : sequence of Pattern
        One a network, as `ReluNetworkBlock.pattern` reads them from a solved model.

    Returns
    -------
    InteriorPoint
        With a positive margin if there is one.
    """
    both = joint_pattern(networks, patterns)
    return interior_point(side_by_side(networks), domain, both)
