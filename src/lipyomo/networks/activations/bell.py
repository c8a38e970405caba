"""Derivatives of erf and of the exact GELU: polynomials times a bell curve.

With ``w = scale exp(-a z**2)`` the derivative of ``R w`` is ``(R' - 2 a z R) w``.  The exponent is
rounded, so w has an error of ``(12 + a z**2) u``; Horner's rule adds 2 n u for the degree n, and
two products 2 u.  As ``|z|**m w`` is at most ``scale (m / (2 e a))**(m / 2)``, all of that is
bounded absolutely, term by term.  The slope of GELU, which is no such product, is that of its
branch.  Turning points are roots of the next polynomial, found in ball arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from flint import arb, fmpz_poly

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.derived import Family, horner, turning_points
from lipyomo.networks.activations.elementary import exp
from lipyomo.networks.activations.rounding import FARTHEST, TINY, Error


@dataclass(frozen=True)
class BellFamily(Family):
    """Derivatives of a function whose `first`-th one is ``start w``.

    Parameters
    ----------
    word : str
        Name of the function.
    branch : Branch
        The function itself, for its derivatives before that.
    first : int
        1 or 2.
    start : tuple of int
        The polynomial there.
    double : int
        2 a: 1 or 2.
    """

    word: str
    branch: Branch
    first: int
    start: tuple[int, ...]
    double: int

    @property
    def name(self) -> str:
        """See `Family`."""
        return self.word

    @property
    def scale(self) -> float:
        """Factor of the bell curve: twice ``pi**-0.5`` for erf, ``(2 pi)**-0.5`` for GELU."""
        return 2.0 / math.sqrt(math.pi) if self.double == 2 else 1.0 / math.sqrt(2.0 * math.pi)

    def derivatives(self, z: FloatArray, first: int, last: int) -> tuple[FloatArray, ...]:
        """See `Family`."""
        x = np.clip(z, -FARTHEST, FARTHEST)
        w = exp(-0.5 * self.double * (x * x)) * self.scale
        found = []
        for k in range(first, last + 1):
            if k < self.first:
                found.append(self.branch.jet(z, k)[k])
            else:
                found.append(horner(_polynomial(self, k), x) * w)
        return tuple(found)

    def turns(self, order: int) -> tuple[Turn, ...]:
        """See `Family`."""
        return _turns(self, order)

    def error(self, order: int) -> Error:
        """See `Family`."""
        if order < self.first:
            return self.branch.errors[order]
        coefficients = [abs(int(one)) for one in _polynomial(self, order).coeffs()]
        unit = UNIT_ROUNDOFF
        each = 16 + 2 * len(coefficients)
        off = sum(
            one * (each * self._peak(k) + 0.5 * self.double * self._peak(k + 2))
            for k, one in enumerate(coefficients)
        )
        return Error(2 * unit, off * unit + 16 * TINY)

    def _peak(self, power: int) -> float:
        """Return the largest ``|z|**power w``, rounded up."""
        share = power / (self.double * math.e)
        return float(self.scale * share ** (power / 2.0) * (1.0 + 1e-12))

    def tails(self, order: int) -> tuple[float, float]:
        """See `Family`."""
        return self.branch.tails[order] if order < self.first else (0.0, 0.0)

    def ball(self, z: arb, order: int) -> arb:
        """See `Family`."""
        if order < self.first:
            return self.branch.ball(z)[order]
        scale = 2 / arb.pi().sqrt() if self.double == 2 else 1 / (2 * arb.pi()).sqrt()
        w = scale * (-z * z * self.double / 2).exp()
        return _polynomial(self, order)(z) * w

    def sign(self, order: int) -> float | None:
        """See `Family`."""
        if order < self.first:
            return None
        odd = _polynomial(self, order).degree() % 2
        return -1.0 if odd else 1.0


@cache
def _polynomial(family: BellFamily, order: int) -> fmpz_poly:
    if order == family.first:
        return fmpz_poly(list(family.start))
    before = _polynomial(family, order - 1)
    return fmpz_poly([0, -family.double]) * before + before.derivative()


@cache
def _turns(family: BellFamily, order: int) -> tuple[Turn, ...]:
    after = _polynomial(family, order + 1)
    return turning_points(after, lambda root: (root, family.ball(root, order)))
