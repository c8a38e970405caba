"""Exact arithmetic on float64 numbers: integers times a power of two, multiplied by FLINT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import fmpq, fmpz, fmpz_mat

from lipyomo.network import FloatArray


def whole(values: FloatArray) -> tuple[list[int], int]:
    """Finite numbers as integers times ``2**exponent``, in the order of the flat array."""
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    mantissa, exponent = np.frexp(flat)
    digits = np.ldexp(mantissa, 53).astype(np.int64)
    used = np.flatnonzero(digits)
    if not used.size:
        return [0] * flat.size, 0
    low = digits[used] & -digits[used]  # the lowest bit: short integers stay short
    zeros = np.frexp(low.astype(np.float64))[1] - 1
    base = int((exponent[used] + zeros).min())
    shift = exponent.astype(np.int64) - base
    short = shift - np.where(digits == 0, shift, 0)
    found = [
        d << s if s >= 0 else d >> -s for d, s in zip(digits.tolist(), short.tolist(), strict=True)
    ]
    return found, base - 53


@dataclass(frozen=True)
class Exact:
    """A matrix ``matrix * 2**exponent``.

    Attributes
    ----------
    matrix : flint.fmpz_mat
    exponent : int
    """

    matrix: fmpz_mat
    exponent: int

    @classmethod
    def of(cls, values: FloatArray) -> Exact:
        """The exact values of a finite float64 matrix."""
        digits, exponent = whole(values)
        return cls(fmpz_mat(values.shape[0], values.shape[1], digits), exponent)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.matrix.nrows(), self.matrix.ncols()

    def __matmul__(self, other: Exact) -> Exact:
        return Exact(self.matrix * other.matrix, self.exponent + other.exponent)

    def aligned(self, exponent: int) -> fmpz_mat:
        """The integers with respect to a smaller exponent."""
        return self.matrix * fmpz(1 << (self.exponent - exponent))

    def __add__(self, other: Exact) -> Exact:
        low = min(self.exponent, other.exponent)
        return Exact(self.aligned(low) + other.aligned(low), low)

    def __sub__(self, other: Exact) -> Exact:
        low = min(self.exponent, other.exponent)
        return Exact(self.aligned(low) - other.aligned(low), low)

    def rationals(self) -> list[fmpq]:
        """All entries, row by row."""
        if self.exponent >= 0:
            scale = fmpz(1 << self.exponent)
            return [fmpq(entry * scale) for entry in self.matrix.entries()]
        below = fmpz(1 << -self.exponent)
        return [fmpq(entry, below) for entry in self.matrix.entries()]
