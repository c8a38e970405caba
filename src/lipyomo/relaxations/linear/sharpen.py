"""Pre-activation bounds over a whole domain, tightened by dual ascent, for use in models.

Back-substitution fixes the slope of each unstable unit's lower line beforehand; `DualAscent`
optimises the slopes for every bound (alpha-CROWN, Xu et al., 2021).  One round bounds the unstable
units of all layers at once, using the lines of the previous round.  As tighter bounds give better
lines, rounds are repeated, at most three times, while they decide units.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, decide, flat
from lipyomo.problems.domains import Domain
from lipyomo.problems.settings import Relaxation
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import WantedBounds
from lipyomo.relaxations.linear.layers import LayerBounds, by_layer
from lipyomo.relaxations.linear.params import PARAMS
from lipyomo.relaxations.linear.preactivation import preactivation_bounds

ModelRelaxation: TypeAlias = "Relaxation | Literal['ascent']"

MOST_WORK = 10_000_000
"""Largest product of unstable units behind the first layer and weights for which models use dual
ascent (a third of a second); larger networks keep the bounds of back-substitution."""


def bounds_of_models(network: Network, domain: Domain, relaxation: ModelRelaxation) -> LayerBounds:
    """Bound pre-activations by a relaxation; ``ascent`` tightens linear bounds if it is cheap."""
    if relaxation != "ascent":
        return preactivation_bounds(network, domain, relaxation=relaxation)
    return sharpen(network, domain, preactivation_bounds(network, domain))


def sharpen(network: Network, domain: Domain, bounds: LayerBounds) -> LayerBounds:
    """Tighten the bounds of unstable units behind the first layer by dual ascent.

    Parameters
    ----------
    network : Network
    domain : Domain
    bounds : LayerBounds
        Bounds by back-substitution over `domain`.

    Returns
    -------
    LayerBounds
        With the relaxation ``ascent`` if anything was tried.
    """
    if not domain.is_bounded or bounds.empty or len(network.hidden) < 2:
        return bounds
    weights = sum(layer.weight.size for layer in network.hidden)
    for _ in range(3):
        known = flat(bounds.phases)
        lower, upper = np.concatenate(bounds.lower), np.concatenate(bounds.upper)
        units = np.flatnonzero(known == OPEN)
        units = units[units >= network.hidden[0].units]  # the first layer's ranges are exact
        if not 0 < units.size * weights <= MOST_WORK:
            break
        ascent = DualAscent(network.hidden, domain)
        relaxation = ascent.relax(
            known[None], lower[None], upper[None], domain.lower[None], domain.upper[None]
        )
        sign = np.repeat([1.0, -1.0], units.size)
        rows = WantedBounds(np.zeros(2 * units.size, dtype=np.int64), np.tile(units, 2), sign)
        found = ascent.ascend(relaxation, rows, ascent.start(relaxation, rows), PARAMS.steps)
        high, low = np.split(ascent.bounds(relaxation, rows, found), 2)
        upper[units] = np.minimum(upper[units], high)
        lower[units] = np.maximum(lower[units], -low)
        before, lows = bounds.unstable, by_layer(network.hidden, lower)
        highs = by_layer(network.hidden, upper)
        phases = decide(bounds.phases, lows, highs)
        empty = bool((lower > upper).any())
        bounds = LayerBounds(lows, highs, "ascent", phases, empty)
        if bounds.unstable == before or empty:
            break
    return bounds
