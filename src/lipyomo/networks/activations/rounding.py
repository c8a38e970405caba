"""What numpy's and SciPy's functions are assumed to be off by, and how results are widened.

All errors are bounds of ``|computed - true|`` for a float64 argument that is taken as exact.  With
the unit roundoff u = 2**-53 the assumptions are

- ``exp``, ``expm1``, ``log1p``, ``tanh``, ``arctanh``: relative error 8 u (four units in the last
  place).  glibc states one to two units, Intel's short vector library, which numpy uses where
  AVX-512 is there, less than four (2 u were seen at most, with either);
- ``sin``, ``cos``: absolute error 8 u for arguments up to 2**20;
- ``scipy.special.erf``: relative error 8 u; ``erfc``: relative error (16 + 4 z**2) u, for it takes
  the exponential of a rounded square (Cephes);
- results below the smallest normal number may be flushed to zero: absolute error `TINY`.

Everything else is sums and products of these.  An activation states for its value and its first
three derivatives a relative and an absolute part (`Error`) that cover them; the argument is in the
file of the activation, and the tests compare with ball arithmetic (Arb).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF

TINY = float(np.finfo(np.float64).tiny)
"""The smallest normal number: what underflow can be off by."""

FARTHEST = float(np.ceil(np.sqrt(-2.0 * np.log(TINY))))
"""Beyond it, 38, ``exp(-z**2 / 2)`` is less than underflow can be off by, by a factor of 1e5."""

ULP = 2.0 * UNIT_ROUNDOFF
"""Relative distance of neighbouring numbers, at most."""


class Assumed(NamedTuple):
    """A function is off by at most ``(relative + squares z**2) u |value| + absolute u`` at z."""

    relative: float = 0.0
    absolute: float = 0.0
    squares: float = 0.0


ASSUMED = {
    "exp": Assumed(8.0),
    "expm1": Assumed(8.0),
    "log1p": Assumed(8.0),
    "tanh": Assumed(8.0),
    "arctanh": Assumed(8.0),
    "sin": Assumed(absolute=8.0),
    "cos": Assumed(absolute=8.0),
    "erf": Assumed(8.0),
    "erfc": Assumed(16.0, squares=4.0),
}
"""The functions in use and what they are assumed to be off by, beside `TINY`;
`lipyomo.networks.activations.elementary` compares them with stored values where the program
runs."""


class Error(NamedTuple):
    """``relative * |computed| + absolute`` bounds what a computed number is off by."""

    relative: float
    absolute: float

    def of(self, values: FloatArray) -> FloatArray:
        """The bound for computed `values`."""
        return np.abs(values) * self.relative + self.absolute


def error(relative: float, absolute: float = 0.0) -> Error:
    """An `Error` of so many unit roundoffs; underflow is included."""
    return Error(relative * UNIT_ROUNDOFF, absolute * UNIT_ROUNDOFF + TINY)


EXACT = Error(0.0, 0.0)


def outwards(low: FloatArray, high: FloatArray, off: Error) -> tuple[FloatArray, FloatArray]:
    """Both ends moved by what they may be off by, and by the rounding of that."""
    if off == EXACT:
        return low, high
    wide = Error(off.relative + 2.0 * UNIT_ROUNDOFF, off.absolute)
    return low - wide.of(low), high + wide.of(high)
