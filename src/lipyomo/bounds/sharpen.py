"""Pre-activation bounds of a whole domain, sharpened by dual ascent where that pays.

Back-substitution fixes the slope of each open unit's lower line beforehand; `DualAscent` chooses
them anew for every bound (alpha-CROWN, Xu et al., 2021).  One round bounds the open units of all
layers at once from the lines known before it; tighter bounds make better lines, so that rounds are
repeated as long as they decide units.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lipyomo.bounds.dual_ascent import SPEED, DualAscent, Rows
from lipyomo.bounds.layers import LayerBounds, by_layer
from lipyomo.domains import Domain
from lipyomo.network import FloatArray, Network
from lipyomo.phases import OPEN, decide
from lipyomo.run import Clock

STEPS = 10
"""Steps of a round."""

MOST_ROUNDS = 3

MOST_SECONDS = 2.0
"""Predicted seconds that a round may take; the units nearest to being decided come first."""

SHARE = 0.05
"""Share of the time left that a round may take."""

MOST_ENTRIES = 4_000_000
"""Multipliers that are iterated at once."""


def sharpen(
    network: Network, domain: Domain, bounds: LayerBounds, clock: Clock | None = None
) -> LayerBounds:
    """Improve the bounds of open units behind the first layer.

    Parameters
    ----------
    network : Network
    domain : Domain
    bounds : LayerBounds
        By back-substitution over `domain`.
    clock : Clock, optional
        What is not reached in its time keeps its bounds.

    Returns
    -------
    LayerBounds
        With the rung ``ascent`` if anything was tried.
    """
    clock = clock or Clock()
    if not domain.is_bounded or bounds.empty or len(network.hidden) < 2:
        return bounds
    ascent: DualAscent | None = None
    for _ in range(MOST_ROUNDS):
        phases = np.concatenate(bounds.phases)
        lower, upper = np.concatenate(bounds.lower), np.concatenate(bounds.upper)
        units = np.flatnonzero(phases == OPEN)
        units = units[units >= network.hidden[0].units]  # the first layer's ranges are exact
        seconds = min(MOST_SECONDS, SHARE * clock.left)
        least = 4 * STEPS * sum(layer.weight.size for layer in network.hidden)  # for one unit
        if not units.size or seconds * SPEED < least:
            break
        if ascent is None:
            ascent = DualAscent(network.hidden, domain)
        most = int(seconds * SPEED / (2 * STEPS * ascent.work))
        near = np.minimum(-lower[units], upper[units]) / (upper[units] - lower[units])
        units = units[np.argsort(near, kind="stable")[:most]]
        relaxation = ascent.relax(
            phases[None], lower[None], upper[None], domain.lower[None], domain.upper[None]
        )
        step = max(1, MOST_ENTRIES // (2 * ascent.columns))
        for begin in range(0, units.size, step):
            if begin and clock.left <= 0:
                break
            part = units[begin : begin + step]
            sign = np.repeat([1.0, -1.0], part.size)
            rows = Rows(np.zeros(2 * part.size, dtype=np.int64), np.tile(part, 2), sign)
            found = ascent.ascend(relaxation, rows, ascent.start(relaxation, rows), STEPS)
            high, low = np.split(ascent.bounds(relaxation, rows, found), 2)
            upper[part] = np.minimum(upper[part], high)
            lower[part] = np.maximum(lower[part], -low)
        before = bounds.unstable
        bounds = _with(network, bounds, lower, upper)
        if bounds.unstable == before or bounds.empty:
            break
    return bounds


def _with(
    network: Network, bounds: LayerBounds, lower: FloatArray, upper: FloatArray
) -> LayerBounds:
    """`bounds` with other ends, given for all units in a row."""
    lows, highs = by_layer(network.hidden, lower), by_layer(network.hidden, upper)
    return replace(
        bounds,
        lower=lows,
        upper=highs,
        rung="ascent",
        phases=decide(bounds.phases, lows, highs),
        empty=bool((lower > upper).any()),
    )
