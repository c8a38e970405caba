"""Tangents of powers of positive signals, ``p z^p (u / z)``, by the range of u / z.

For any k

    u / z = k + (u - k z) / z,

and ``u - k z`` is bounded as one function of (x, v), in which much of u and of z cancels: where a
sum of squares is small, so is its tangent.
"""

from __future__ import annotations

import numpy as np

from lipyomo_check.smooth.boxes import Ends
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.factors import Form, times

ROUNDS = 2
"""The first bound is the k of the second one."""


@np.errstate(all="ignore")  # what is not finite says nothing
def tangents(p: float, values: Ends, z: Form, u: Form, gamma: float) -> Ends:
    """Return ends of ``p z^p (u / z)``; infinite ones where z may not be positive.

    Parameters
    ----------
    p : float
    values : (ndarray, ndarray)
        Ends of ``z^p``.
    z, u : Form
    gamma : float
    """
    low, high = z.ends
    upper = largest_ratio(z, u, (low, high), 1.0, gamma)
    lower = -largest_ratio(z, u, (low, high), -1.0, gamma)
    found = times(values, (lower, np.maximum(lower, upper)))
    found = (p * found[0], p * found[1]) if p > 0.0 else (p * found[1], p * found[0])
    room = 8.0 * ULP * np.maximum(np.abs(found[0]), np.abs(found[1]))
    known = (low > 0.0) & np.isfinite(room)
    return (
        np.where(known, found[0] - room, -np.inf),
        np.where(known, found[1] + room, np.inf),
    )


def largest_ratio(z: Form, u: Form, ends: Ends, sign: float, gamma: float) -> Array:
    """Return the largest value of ``sign u / z``, for z > 0 between its ends."""
    low, high = ends
    top = sign * u.middle + u.radius
    best = np.maximum(top / low, top / high)
    best = best + 4.0 * ULP * np.abs(best)
    k = np.where(np.isfinite(z.middle), sign * u.middle / z.middle, 0.0)
    for _ in range(ROUNDS):
        turn = sign * u.turn - k[:, :, None] * z.turn
        above = sign * (u.middle + u.offset) - k * (z.middle + z.offset)
        above = above + np.abs(turn).sum(axis=2) + u.away + np.abs(k) * z.away
        above = above + gamma * (u.size + np.abs(k) * z.size)
        k = k + np.maximum(above / low, above / high)
        k = k + 4.0 * ULP * (np.abs(k) + np.abs(above) / low)
        best = np.fmin(best, k)
        k = np.where(np.isfinite(best), best, 0.0)
    return best
