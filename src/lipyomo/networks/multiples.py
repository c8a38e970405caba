"""Rows that are multiples of each other by a power of two."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray

FAR = 60
"""Largest exponents of two by which rows are scaled."""


def canonical(*row: FloatArray) -> tuple[bytes, float]:
    """Return a key of a row up to sign and a power of two, and that factor.

    The power is limited so that entries of usual size do not overflow or underflow.
    """
    whole = np.concatenate([np.atleast_1d(part) for part in row])
    filled = np.flatnonzero(whole)
    if not filled.size:
        return whole.tobytes(), 1.0
    power = int(np.frexp(np.abs(whole).max())[1])
    least = int(np.frexp(np.abs(whole[filled]).min())[1])
    scale = np.copysign(np.ldexp(1.0, power), whole[filled[0]])
    if abs(power) > FAR or least < -FAR:
        scale = 1.0
    return (whole / scale + 0.0).tobytes(), float(scale)


def is_power_of_two(number: float) -> bool:
    """Return whether multiplying by a number is exact, for numbers of usual size."""
    fraction, exponent = np.frexp(number)
    return bool(abs(fraction) == 0.5 and abs(exponent) <= FAR)
