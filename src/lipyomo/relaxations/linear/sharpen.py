"""Pre-activation bounds over a whole domain, tightened by dual ascent, for use in models.

Back-substitution fixes the slope of each unstable unit's lower line beforehand; `DualAscent`
optimises the slopes for every bound (alpha-CROWN, Xu et al., 2021).  One round bounds the unstable
units of all layers at once, using the lines of the previous round.  As tighter bounds give better
lines, rounds are repeated, at most three times, while they decide units.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.params import PARAMS as PACE
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, count_open, decide, flat
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
    found = preactivation_bounds(network, domain)
    behind = count_open(found.phases[1:])
    work = behind * sum(layer.weight.size for layer in network.hidden)
    return found if work > MOST_WORK else sharpen(network, domain, found)


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
    ascent: DualAscent | None = None
    for _ in range(3):
        phases = flat(bounds.phases)
        lower, upper = np.concatenate(bounds.lower), np.concatenate(bounds.upper)
        units = np.flatnonzero(phases == OPEN)
        units = units[units >= network.hidden[0].units]  # the first layer's ranges are exact
        work = PARAMS.seconds * PACE.rate
        one_unit = 4 * PARAMS.steps * sum(layer.weight.size for layer in network.hidden)
        if not units.size or one_unit > work:
            break
        if ascent is None:
            ascent = DualAscent(network.hidden, domain)
        most = int(work / (2 * PARAMS.steps * ascent.work))
        near = np.minimum(-lower[units], upper[units]) / (upper[units] - lower[units])
        units = units[np.argsort(near, kind="stable")[:most]]
        relaxation = ascent.relax(
            phases[None], lower[None], upper[None], domain.lower[None], domain.upper[None]
        )
        sign = np.repeat([1.0, -1.0], units.size)
        rows = WantedBounds(np.zeros(2 * units.size, dtype=np.int64), np.tile(units, 2), sign)
        found = ascent.ascend(relaxation, rows, ascent.start(relaxation, rows), PARAMS.steps)
        high, low = np.split(ascent.bounds(relaxation, rows, found), 2)
        upper[units] = np.minimum(upper[units], high)
        lower[units] = np.maximum(lower[units], -low)
        before = bounds.unstable
        bounds = _with(network, bounds, lower, upper)
        if bounds.unstable == before or bounds.empty:
            break
    return bounds


def _with(
    network: Network, bounds: LayerBounds, lower: FloatArray, upper: FloatArray
) -> LayerBounds:
    """Return `bounds` with new ends, given for all units in one array."""
    lows, highs = by_layer(network.hidden, lower), by_layer(network.hidden, upper)
    return bounds._replace(
        lower=lows,
        upper=highs,
        relaxation="ascent",
        phases=decide(bounds.phases, lows, highs),
        empty=bool((lower > upper).any()),
    )
