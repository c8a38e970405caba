"""Exact arithmetic on dyadic rationals: integers times a power of two, in NumPy object arrays.

Every finite float64 is dyadic, and so are sums and products of them: the whole forward pass and
every Jacobian of a network with float64 weights can be computed without rounding.  Python's
integers do the work, which is far faster than fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from lipyomo.network import FloatArray

ObjectArray = npt.NDArray[np.object_]


@dataclass(frozen=True)
class Dyadic:
    """An array of numbers ``digits * 2**exponent``.

    Attributes
    ----------
    digits : ndarray of Python integers
    exponent : int
    """

    digits: ObjectArray
    exponent: int

    @classmethod
    def of(cls, values: FloatArray) -> Dyadic:
        """The exact values of a finite float64 array."""
        mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
        whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
        used = exponent[mantissa != 0]
        base = int(used.min()) if used.size else 0
        shift = np.where(mantissa != 0, exponent - base, 0).astype(object)
        digits = np.asarray(whole * (2**shift), dtype=object)
        return cls(digits, base - 53)

    def aligned(self, exponent: int) -> ObjectArray:
        """Digits with respect to a smaller exponent."""
        return np.asarray(self.digits * (1 << (self.exponent - exponent)), dtype=object)

    def __add__(self, other: Dyadic) -> Dyadic:
        low = min(self.exponent, other.exponent)
        return Dyadic(self.aligned(low) + other.aligned(low), low)

    def __sub__(self, other: Dyadic) -> Dyadic:
        return self + Dyadic(-other.digits, other.exponent)

    def __mul__(self, other: Dyadic) -> Dyadic:
        product = np.asarray(self.digits * other.digits, dtype=object)
        return Dyadic(product, self.exponent + other.exponent)

    def __matmul__(self, other: Dyadic) -> Dyadic:
        product = np.asarray(np.dot(self.digits, other.digits), dtype=object)
        return Dyadic(product, self.exponent + other.exponent)

    def sign(self) -> npt.NDArray[np.int8]:
        """Signs of the numbers."""
        return np.asarray((self.digits > 0).astype(np.int8) - (self.digits < 0).astype(np.int8))

    def fractions(self) -> list[Fraction]:
        """The numbers of a flat array as fractions."""
        scale = Fraction(2) ** self.exponent
        return [Fraction(int(value)) * scale for value in self.digits.reshape(-1)]
