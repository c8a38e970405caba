"""Derivatives of SiLU: ``k l^(k-1) + z l^(k)`` for the logistic function l.

The first three are those of its branch.
Those of l are 2**-(k+1) times those of tanh at z / 2.  With C and n of
`lipyomo.networks.activations.hyperbolic`, tanh^(k) is off by (28 + 10 n) u C (1 - t**2), and
``|z| (1 - t**2)`` is at most one at t = tanh(z / 2); the products and the sum add a few u.
Turning points beyond those of the branch are roots of the next derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.derived import Family
from lipyomo.networks.activations.hyperbolic import TanhFamily, polynomial
from lipyomo.networks.activations.rounding import TINY, Error

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
