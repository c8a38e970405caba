"""Powers, the exponential and the logarithm: kinds that have bounds on intervals only."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from lipyomo_check.smooth.elementary import LARGEST, Array, exp_minus, log_one_plus
from lipyomo_check.smooth.kind import Bools, Four, Kind

HIGHEST = 8
"""Exponents are multiples of a half up to this, and down to minus this."""

EXPONENTS = {k / 2.0 for k in range(-2 * HIGHEST, 2 * HIGHEST + 1)} - {0.0, 1.0}

NOWHERE = (math.inf, math.inf, math.inf)
"""There are no bounds everywhere."""

TINY = 1e-290
"""Larger than all errors by underflow."""

SCALE = (TINY, TINY, TINY, TINY)


def _power(exponent: float, z: Array) -> Array:
    """Return ``z**exponent`` by products, a root and a quotient, off by less than 2^-49 of it."""
    whole = math.floor(abs(exponent))
    found = np.sqrt(z) if abs(exponent) != whole else np.ones_like(z)
    for _ in range(whole):
        found = found * z
    return np.asarray(1.0 / found if exponent < 0.0 else found)


def _powers(exponent: float, z: Array, right: tuple[Bools, ...]) -> Four:
    found, factor = [], 1.0
    with np.errstate(all="ignore"):  # what is not finite says nothing
        for k in range(4):
            found.append(_power(exponent - k, z) * factor if factor else np.zeros_like(z))
            factor *= exponent - k
    return found[0], found[1], found[2], found[3]


def _exp(z: Array, right: tuple[Bools, ...]) -> Four:
    with np.errstate(all="ignore"):
        size = exp_minus(np.abs(z))
        value = np.where(z > 0.0, 1.0 / size, size)
    return value, value, value, value


def _log(z: Array, right: tuple[Bools, ...]) -> Four:
    """Return log z as ``-log(1 + 1/m - 1) + k log(2)`` for ``z = m 2**k``, m in [1/2, 1).

    1/m - 1 is off by 2^-53 of 1/m, which is less than 2; the product with k is off by 2^-51 of it.
    """
    share, power = np.frexp(z)
    with np.errstate(all="ignore"):
        some = np.where((share >= 0.5) & (share < 1.0), share, 0.5)
        value = power * 0.6931471805599453 - log_one_plus(np.minimum(1.0 / some - 1.0, 1.0))
        one = 1.0 / z
        return value, one, -one * one, 2.0 * one * one * one


def _everywhere(low: Array, high: Array) -> Bools:
    return np.isfinite(low) & np.isfinite(high)


def _above(low: Array, high: Array) -> Bools:
    return (low > 0.0) & np.isfinite(high)


def _beside(low: Array, high: Array) -> Bools:
    return ((low > 0.0) | (high < 0.0)) & np.isfinite(low) & np.isfinite(high)


def _small(low: Array, high: Array) -> Bools:
    return (low > -np.inf) & (high < LARGEST)


def power_kind(exponent: float) -> Kind:
    """Return ``z**exponent``."""
    whole = exponent == int(exponent)
    inside = (_everywhere if exponent > 0.0 else _beside) if whole else _above
    curved = not (whole and exponent > 0.0)
    bounded = exponent if exponent in (0.5, -0.5, -1.0) else None
    return Kind(
        partial(_powers, exponent),
        NOWHERE,
        scale=SCALE,
        slopes=(-math.inf, math.inf),
        inside=inside,
        geometric=curved,
        power=bounded,
    )


_ANY = (-math.inf, math.inf)

UNBOUNDED: dict[str, Kind] = {
    "square": power_kind(2.0),
    "sqrt": power_kind(0.5),
    "rsqrt": power_kind(-0.5),
    "reciprocal": power_kind(-1.0),
    "exp": Kind(_exp, NOWHERE, scale=SCALE, slopes=_ANY, inside=_small),
    "log": Kind(
        _log,
        NOWHERE,
        scale=(1.0, TINY, TINY, TINY),
        slopes=_ANY,
        inside=_above,
        geometric=True,
    ),
}
"""The kinds of powers without parameters."""
