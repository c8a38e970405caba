"""Monotone pairs: conditions on a network at two points that its slopes exclude.

If ``x_i >= x'_i`` for some inputs and ``x_i = x'_i`` for the others, and ``c . f`` is nondecreasing
in the former everywhere between the points, ``c . f(x) - c . f(x')`` is nonnegative, as the
integral of slopes along the segment.  Branch and bound over both points cannot prove this, since
the difference is zero wherever the points are equal.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np

from lipyomo.analyses.certification.monotone import MonotoneSettings, least_slope
from lipyomo.analyses.questions.conjunction import Conjunction
from lipyomo.base.arrays import BoolArray, FloatArray, Matrix
from lipyomo.base.clock import Clock
from lipyomo.base.errors import LipyomoError
from lipyomo.networks.digest import network_digest
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box
from lipyomo.problems.domains.query import Condition

LEAST = 1e-3
"""Least time limit for bounding a slope, in seconds."""


def excluded_by_slopes(conjunction: Conjunction, clock: Clock) -> bool:
    """Return whether slopes prove that no point satisfies some row of a conjunction.

    Parameters
    ----------
    conjunction : Conjunction
    clock : Clock
    """
    digests = [network_digest(network) for network in conjunction.networks]
    for row in conjunction.mixed:
        for first, second in permutations(range(len(digests)), 2):
            if digests[first] == digests[second]:
                c = _difference(conjunction, row, first, second)
                if c is not None and _not_negative(conjunction, c, (first, second), clock):
                    return True
    return False


def _difference(
    conjunction: Conjunction, row: Condition, first: int, second: int
) -> FloatArray | None:
    """Return c if a row implies ``c . f(x) - c . f(x') < 0``, else None."""
    if row.constant < 0 or (row.constant == 0 and not row.strict):
        return None
    starts = np.cumsum([0, *(one.outputs for one in conjunction.query.networks)])
    weights = [Fraction(0)] * int(starts[-1])
    for k, a in row.coefficients:
        if k >= 0:
            return None
        weights[~k] = a
    parts = [weights[starts[k] : starts[k + 1]] for k in range(len(starts) - 1)]
    if any(any(part) for k, part in enumerate(parts) if k not in (first, second)):
        return None
    if parts[first] != [-a for a in parts[second]]:
        return None
    c = [float(a) for a in parts[first]]
    return np.array(c) if list(map(Fraction, c)) == parts[first] else None


def _not_negative(
    conjunction: Conjunction, c: FloatArray, pair: tuple[int, int], clock: Clock
) -> bool:
    """Return whether ``c . f`` is proved to be at least as large at the first point."""
    network, (here, there) = conjunction.networks[pair[0]], (conjunction.own(k) for k in pair)
    at_least = {
        ((i, j) if a < 0 else (j, i))
        for row in conjunction.inputs
        if len(row.coefficients) == 2 and row.constant >= 0
        for (i, a), (j, b) in [row.coefficients]
        if a + b == 0
    }  # pairs (i, j) with x_i >= x_j
    signs = np.zeros(here.size)
    for k, (i, j) in enumerate(zip(here.tolist(), there.tolist(), strict=True)):
        if i != j:
            if (i, j) not in at_least and (j, i) not in at_least:
                return False
            signs[k] = 1.0 if (i, j) in at_least else -1.0
    low, high = conjunction.domain.lower, conjunction.domain.upper
    box = Box(np.minimum(low[here], low[there]), np.maximum(high[here], high[there]))
    moving = np.flatnonzero(signs)
    for left, k in enumerate(moving.tolist()):
        if rises(network, signs[k] * c, k):
            continue
        share = max(clock.left / (2 * (moving.size - left)), LEAST)
        try:
            asked = MonotoneSettings(time_limit=share, tolerance=0.0)
            slope = least_slope(network, box, signs[k] * c, k, asked)
        except LipyomoError:  # no bound, or a frozen input: left to the search
            return False
        if not slope.lower >= 0:
            return False
    return True


def rises(network: Network, row: FloatArray, i: int) -> bool:
    """Return whether signs of weights and slopes prove ``row . f`` nondecreasing in input i.

    There is no rounding, as it only propagates which entries of the tangent can be positive, and
    which negative.
    """
    up: BoolArray = np.zeros(network.input_dim, dtype=bool)
    down = up.copy()
    up[i] = True
    for layer in network.hidden:
        up, down = _mapped(layer.weight, up, down)
        least, most = np.minimum(layer.left, layer.right), np.maximum(layer.left, layer.right)
        for curve in layer.curves:
            least[curve.units], most[curve.units] = curve.activation.limits
        rising, falling = most > 0, least < 0
        up, down = (up & rising) | (down & falling), (down & rising) | (up & falling)
    _, down = _mapped(row[None], *_mapped(network.head.weight, up, down))
    return not down.any()


def _mapped(weight: Matrix, up: BoolArray, down: BoolArray) -> tuple[BoolArray, BoolArray]:
    """Return which weighted sums of entries can be positive, and which negative."""
    plus, minus = ((sign * weight > 0).astype(np.float64) for sign in (1, -1))
    more = np.asarray((plus @ up + minus @ down) > 0)
    less = np.asarray((plus @ down + minus @ up) > 0)
    return more, less
