"""Rows that are multiples of each other by a power of two."""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray

FAR = 60
"""Largest exponents of two by which rows are scaled."""


def canonical(*row: FloatArray) -> tuple[bytes, float]:
    """A key that rows have in common which are equal but for a sign and a power of two; and that.

    Powers are small enough that nothing overflows or underflows which is of any size.
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
    """Whether multiplying by it rounds nothing, for numbers of usual size; of either sign."""
    fraction, exponent = np.frexp(number)
    return bool(abs(fraction) == 0.5 and abs(exponent) <= FAR)
