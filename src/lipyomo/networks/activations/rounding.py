"""Assumed error bounds of numpy's and SciPy's functions, and widening of results by them.

All errors are bounds of ``|computed - true|`` for a float64 argument that is taken as exact.  With
the unit roundoff u = 2**-53 the assumptions are

- ``exp``, ``expm1``, ``log1p``, ``tanh``, ``arctanh``: relative error 8 u (four units in the last
  place).  glibc states one to two units, Intel's short vector library, which numpy uses with
  AVX-512, less than four (the largest observed error is 2 u for both);
- ``sin``, ``cos``: absolute error 8 u for arguments up to 2**20;
- ``scipy.special.erf``: relative error 8 u; ``erfc``: relative error (16 + 4 z**2) u, as it uses
  the exponential of a rounded square (Cephes);
- results below the smallest normal number may be flushed to zero: absolute error `TINY`.

Everything else consists of sums and products of these.  An activation has a relative and an
absolute error bound (`Error`) for its value and its first three derivatives; the derivation is in
the file of the activation, and the tests compare with ball arithmetic (Arb).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF

TINY = float(np.finfo(np.float64).tiny)
"""The smallest normal number: bound of the error by underflow."""

FARTHEST = float(np.ceil(np.sqrt(-2.0 * np.log(TINY))))
"""Argument, 38, beyond which ``exp(-z**2 / 2)`` is at most 1e-5 times the error by underflow."""

ULP = 2.0 * UNIT_ROUNDOFF
"""Largest relative distance of neighbouring numbers."""


class Assumed(NamedTuple):
    """Error bound of a function at z: ``(relative + squares z**2) u |value| + absolute u``."""

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
"""Assumed error bounds of the functions in use, in addition to `TINY`;
`lipyomo.networks.activations.elementary` checks them on the machine in use."""


class Error(NamedTuple):
    """Error bound ``relative * |computed| + absolute`` of a computed number."""

    relative: float
    absolute: float

    def of(self, values: FloatArray) -> FloatArray:
        """Return the bound for computed `values`."""
        return np.abs(values) * self.relative + self.absolute


def error(relative: float, absolute: float = 0.0) -> Error:
    """Return an `Error` given in unit roundoffs; underflow is included."""
    return Error(relative * UNIT_ROUNDOFF, absolute * UNIT_ROUNDOFF + TINY)


EXACT = Error(0.0, 0.0)


def outwards(low: FloatArray, high: FloatArray, off: Error) -> tuple[FloatArray, FloatArray]:
    """Move both ends outwards by their error bounds, with the rounding of these included."""
    if off == EXACT:
        return low, high
    wide = Error(off.relative + 2.0 * UNIT_ROUNDOFF, off.absolute)
    return low - wide.of(low), high + wide.of(high)
