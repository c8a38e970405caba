"""Primal heuristics: points with large values."""

from __future__ import annotations

import numpy as np

from lipyomo.domains import Domain
from lipyomo.network import FloatArray, Network
from lipyomo.run import Clock
from lipyomo.search.smooth.ascent import drawn_in

INWARDS = 2.0 ** -np.arange(52.0, 20.0, -4.0)
"""Shares of the way to the centre by which a point that rounding left outside is pulled."""


def climbed(
    network: Network, row: FloatArray, domain: Domain, points: FloatArray, steps: int, clock: Clock
) -> tuple[FloatArray, FloatArray]:
    """Points (n, d) after ascents of ``row . f`` along the gradients, and their values (n,).

    Steps are shares of the domain's width; one that loses is taken back and halved.
    """
    width = domain.upper - domain.lower
    x, size = drawn_in(domain, points), np.full(len(points), 0.25)
    values = network.forward(x) @ row
    for _ in range(steps):
        if clock.expired:
            break
        slopes = network.gradients(x, row) * width
        longest = np.abs(slopes).max(axis=1, keepdims=True)
        aim = slopes / np.where(longest > 0, longest, 1.0)
        new = drawn_in(domain, x + size[:, None] * width * aim)
        found = network.forward(new) @ row
        better = found > values
        x, values = np.where(better[:, None], new, x), np.where(better, found, values)
        size = np.where(better, size, 0.5 * size)
    return x, values


def pulled_in(domain: Domain, x: FloatArray) -> list[FloatArray]:
    """The point, some a little nearer to the centre, and one that is well inside."""
    first = np.clip(x, domain.lower, domain.upper)
    near = (first + share * (domain.center - first) for share in INWARDS)
    last = drawn_in(domain, x[None])[0]
    return [first, *near, last, last + INWARDS[-1] * (domain.center - last)]
