"""Multipliers of many small linear programs at a time.

For ``max a . x`` over ``|x_i| <= 1`` and rows ``G x <= h`` any y >= 0 gives the bound

    sum_i |a - y G|_i + y . h,

and the smallest one is the maximum.  Steps of an interior-point method
(`base/numerics/interior.py`) approach it.  If no x satisfies all rows, y grows along a ray on which
the bound decreases without limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.interior import Stacked, combined
from lipyomo.base.numerics.rounding import EQUAL

STEPS = int(np.ceil(-np.log10(EQUAL)))
"""The largest number of steps: each gains about a digit."""


class Programs(NamedTuple):
    """N programs ``max a . x`` over ``|x_i| <= 1`` and ``G x <= h``, scaled to numbers near one.

    Shapes are (N, d), (N, K, d) and (N, K).
    """

    a: FloatArray
    G: FloatArray
    h: FloatArray


@np.errstate(all="ignore")  # an overflow gives no bound
def best_multipliers(
    programs: Programs, aims: FloatArray, steps: int = STEPS
) -> tuple[FloatArray, FloatArray]:
    """Find multipliers whose bounds are near the smallest ones, or at most `aims` (N,).

    Returns
    -------
    multipliers : ndarray, shape (N, K)
    points : ndarray, shape (N, d)
        Near the maximisers, if some x satisfies all rows.
    """
    count, rows, d = programs.G.shape
    found, points = np.zeros((count, rows)), np.zeros((count, d))
    least, place = np.abs(programs.a).sum(axis=1), np.arange(count)
    now = _start(programs)
    for step in range(steps + 1):
        y = now.of_rows
        bounds = np.abs(now.a - combined(now.G, y)).sum(axis=1) + (y * now.h[:, :rows]).sum(axis=1)
        better = bounds < least[place]
        least[place[better]], found[place[better]] = bounds[better], y[better]
        points[place] = now.at
        more = (bounds > aims[place]) & np.isfinite(bounds)
        if step == steps or not more.any():
            break
        if not more.all():
            place, now = place[more], now.take(more)
        try:
            now = now.stepped()
        except np.linalg.LinAlgError:
            break
    return found, points


def _start(programs: Programs) -> Stacked:
    """Return the start: the middle of the box, with equal multipliers."""
    (a, G, h), (count, rows, d) = programs, programs.G.shape
    y = np.full((count, rows), 1.0 / (d * rows))
    rest = a - combined(G, y)
    ends = np.maximum(np.concatenate([rest, -rest], axis=1), 0.0) + 1.0 / d
    ones = np.ones_like(ends)
    slack = np.concatenate([np.maximum(h, 1.0), ones], axis=1)
    weights = np.concatenate([y, ends], axis=1)
    return Stacked(a, G, np.concatenate([h, ones], axis=1), np.zeros((count, d)), slack, weights)
