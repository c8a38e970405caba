"""Derivatives of tanh, erf, GELU and SiLU to any order.

Those of tanh are ``s Q(t)`` with t = tanh z, s = 1 - t**2 and polynomials Q.  As s' = -2 t s and t'
= s, the next polynomial is ``-2 t Q + (1 - t**2) Q'``.  s is computed as ``4 e / (1 + e)**2``, e =
exp(-2 |z|), off by 24 u.  With C the sum of the absolute coefficients and n the degree, Q(t) is off
by 8 n u C for t, which is off by 8 u, and by 2 n u C for Horner's rule; a monomial keeps its
relative precision.  Underflow in e causes an error four times as large in s.  Turning points are
roots of the next polynomial, found in ball arithmetic.

Those of erf and of the exact GELU are polynomials times a bell curve.  With ``w = scale exp(-a
z**2)`` the derivative of ``R w`` is ``(R' - 2 a z R) w``.  The exponent is rounded, so w has an
error of ``(12 + a z**2) u``; Horner's rule adds 2 n u for the degree n, and two products 2 u.  As
``|z|**m w`` is at most ``scale (m / (2 e a))**(m / 2)``, all of that is bounded absolutely, term by
term.  The slope of GELU, which is no such product, is that of its branch.  Turning points are roots
of the next polynomial, found in ball arithmetic.

Those of SiLU are ``k l^(k-1) + z l^(k)`` for the logistic function l; the first three are those of
its branch.  Those of l are 2**-(k+1) times those of tanh at z / 2.  With C and n as above, tanh^(k)
is off by (28 + 10 n) u C (1 - t**2), and ``|z| (1 - t**2)`` is at most one at t = tanh(z / 2); the
products and the sum add a few u.  Turning points beyond those of the branch are roots of the next
derivative.
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
from lipyomo.networks.activations.elementary import exp, tanh, tanh_slope
from lipyomo.networks.activations.rounding import FARTHEST, TINY, Error

SLOPE = fmpz_poly([1, 0, -1])
"""tanh', in t."""


@cache
def polynomial(order: int) -> fmpz_poly:
    """Q of a derivative of tanh; ``order >= 1``."""
    if order == 1:
        return fmpz_poly([1])
    before = polynomial(order - 1)
    return fmpz_poly([0, -2]) * before + SLOPE * before.derivative()


@cache
def _turns(order: int) -> tuple[Turn, ...]:
    whole = SLOPE * polynomial(order)
    return turning_points(polynomial(order + 1), lambda t: (t.atanh(), whole(t)))


@dataclass(frozen=True)
class TanhFamily(Family):
    """Derivatives of tanh."""

    name = "tanh"

    def derivatives(self, z: FloatArray, first: int, last: int) -> tuple[FloatArray, ...]:
        """See `Family`."""
        t, s = tanh(z), tanh_slope(z)
        return tuple(s * horner(polynomial(k), t) for k in range(first, last + 1))

    def turns(self, order: int) -> tuple[Turn, ...]:
        """See `Family`."""
        return _turns(order)

    def error(self, order: int) -> Error:
        """See `Family`."""
        coefficients = [abs(int(one)) for one in polynomial(order).coeffs()]
        size = sum(coefficients)
        off, unit = 10 * (len(coefficients) - 1), UNIT_ROUNDOFF
        if sum(one != 0 for one in coefficients) == 1:
            return Error((28 + off) * unit, 8 * size * TINY)
        return Error(28 * unit, (off + 2) * size * unit + 8 * size * TINY)

    def ball(self, z: arb, order: int) -> arb:
        """See `Family`."""
        return z.sech() ** 2 * polynomial(order)(z.tanh())

    def sign(self, order: int) -> float:
        """See `Family`."""
        return 1.0 if order % 2 else -1.0


# -- erf and GELU ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class BellFamily(Family):
    """Derivatives of a function whose `first`-th one is ``start w``.

    Parameters
    ----------
    name : str
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

    name: str
    branch: Branch
    first: int
    start: tuple[int, ...]
    double: int

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
                found.append(horner(_of_bell(self, k), x) * w)
        return tuple(found)

    def turns(self, order: int) -> tuple[Turn, ...]:
        """See `Family`."""
        return _turns_of_bell(self, order)

    def error(self, order: int) -> Error:
        """See `Family`."""
        if order < self.first:
            return self.branch.errors[order]
        coefficients = [abs(int(one)) for one in _of_bell(self, order).coeffs()]
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
        return _of_bell(self, order)(z) * w

    def sign(self, order: int) -> float | None:
        """See `Family`."""
        if order < self.first:
            return None
        odd = _of_bell(self, order).degree() % 2
        return -1.0 if odd else 1.0


@cache
def _of_bell(family: BellFamily, order: int) -> fmpz_poly:
    if order == family.first:
        return fmpz_poly(list(family.start))
    before = _of_bell(family, order - 1)
    return fmpz_poly([0, -family.double]) * before + before.derivative()


@cache
def _turns_of_bell(family: BellFamily, order: int) -> tuple[Turn, ...]:
    after = _of_bell(family, order + 1)
    return turning_points(after, lambda root: (root, family.ball(root, order)))


# -- SiLU -----------------------------------------------------------------------------------------

HIGHEST = 3
"""Derivatives that a branch has."""

_TURNS = {
    4: (
        (0.0, -0.5),
        (1.8197756117250128, 0.20369232506688512),
        (5.400818739495216, -0.00524336842945993),
    ),
    5: (
        (0.7177419231465666, 0.6580282624143104),
        (2.5062894864027525, -0.1371838764514903),
        (6.3619922836816905, 0.001988382648753471),
    ),
    6: (
        (0.0, 1.5),
        (1.3016247373574992, -0.7938385534915527),
        (3.1394135416203106, 0.09274533517181784),
        (7.319199928108984, -0.0007539507058630777),
    ),
}
"""Turning points on the right, with the values there, by orders."""


@dataclass(frozen=True)
class SiluFamily(Family):
    """Derivatives of SiLU.

    Parameters
    ----------
    branch : Branch
        The function itself.
    """

    branch: Branch

    name = "silu"

    def derivatives(self, z: FloatArray, first: int, last: int) -> tuple[FloatArray, ...]:
        """See `Family`."""
        found = list(self.branch.jet(z, min(last, HIGHEST))[first:])
        least = max(first, HIGHEST + 1)
        if last >= least:
            of_tanh = TanhFamily().derivatives(0.5 * z, least - 1, last)
            for k in range(least, last + 1):
                before, own = of_tanh[k - least : k - least + 2]
                found.append(k * 0.5**k * before + z * (0.5 ** (k + 1) * own))
        return tuple(np.asarray(one) for one in found)

    def turns(self, order: int) -> tuple[Turn, ...]:
        """See `Family`."""
        if order <= HIGHEST:
            return self.branch.turns[order]
        sign = self.sign(order)
        assert sign is not None
        right = [Turn(*pair) for pair in _TURNS[order]]
        left = [Turn(-turn.at, sign * turn.value) for turn in reversed(right) if turn.at]
        return (*left, *right)

    def error(self, order: int) -> Error:
        """See `Family`."""
        if order <= HIGHEST:
            return self.branch.errors[order]
        off = 0.0
        for k, factor in ((order - 1, order * 0.5**order), (order, 0.5 ** (order + 1))):
            size = sum(abs(int(one)) for one in polynomial(k).coeffs())
            off += factor * (40 + 10 * polynomial(k).degree()) * size
        return Error(2 * UNIT_ROUNDOFF, off * UNIT_ROUNDOFF + 1e5 * off * TINY)

    def tails(self, order: int) -> tuple[float, float]:
        """See `Family`."""
        return self.branch.tails[order] if order < 2 else (0.0, 0.0)

    def ball(self, z: arb, order: int) -> arb:
        """See `Family`."""
        if order < 2:
            return self.branch.ball(z)[order]
        tanh = TanhFamily()
        before, own = tanh.ball(z / 2, order - 1), tanh.ball(z / 2, order)
        return (order * before + z * own / 2) / 2**order

    def sign(self, order: int) -> float | None:
        """See `Family`."""
        if order < 2:
            return None
        return -1.0 if order % 2 else 1.0
