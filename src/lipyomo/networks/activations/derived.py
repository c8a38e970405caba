"""Derivatives of activations as activations.

The slope of a unit is a function of its pre-activation, and if it is continuous it is an activation
itself: the cosine for the sine, the logistic function for softplus.  Slopes without a class of
their own, such as tanh', become a `Derivative`: its value and three derivatives are higher
derivatives of the same function, which a `Family` provides to any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from flint import arb, ctx, fmpz_poly

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import NetworkError
from lipyomo.networks.activations.activation import Activation, Slope
from lipyomo.networks.activations.branch import Branch, Turn
from lipyomo.networks.activations.rounding import Error

DEEPEST = 3
"""Largest order of a derivative that is an activation: three more derivatives make its bands."""

BITS = 128
"""Precision with which turning points are found."""


class Family(ABC):
    """All derivatives of a smooth function on R.

    Attributes
    ----------
    name : str
        Name of the function.
    """

    name: str

    @abstractmethod
    def derivatives(self, z: FloatArray, first: int, last: int) -> tuple[FloatArray, ...]:
        """Return the derivatives of orders `first` to `last` at finite `z`; ``first >= 1``."""

    @abstractmethod
    def turns(self, order: int) -> tuple[Turn, ...]:
        """Turning points of a derivative."""

    @abstractmethod
    def error(self, order: int) -> Error:
        """Return the error bound of `derivatives`."""

    @abstractmethod
    def ball(self, z: arb, order: int) -> arb:
        """Enclosure of a derivative on a ball."""

    def tails(self, order: int) -> tuple[float, float]:
        """Limits of a derivative at both ends; ``order >= 1``."""
        return 0.0, 0.0

    def sign(self, order: int) -> float | None:
        """Return P with ``sigma^(k)(-z) = P sigma^(k)(z)``, None if there is none."""
        return None


@dataclass(frozen=True)
class DerivativeBranch(Branch):
    """A derivative of a function, on R."""

    family: Family
    order: int

    @cached_property
    def turns(self) -> tuple[tuple[Turn, ...], ...]:
        """Turning points, for the derivative and three more."""
        return tuple(self.family.turns(self.order + k) for k in range(4))

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        """Error bounds of `jet`."""
        return tuple(self.family.error(self.order + k) for k in range(4))

    @property
    def tails(self) -> tuple[tuple[float, float], ...]:
        """Limits at both ends."""
        return tuple(self.family.tails(self.order + k) for k in range(4))

    def jet(self, z: FloatArray, order: int) -> tuple[FloatArray, ...]:
        """Return value and derivatives up to `order` at finite `z`."""
        return self.family.derivatives(z, self.order, self.order + order)

    def ball(self, z: arb) -> tuple[arb, arb]:
        """Enclosures of value and slope on a ball."""
        return self.family.ball(z, self.order), self.family.ball(z, self.order + 1)


@dataclass(frozen=True)
class Derivative(Activation):
    """A derivative of a smooth function.

    Parameters
    ----------
    family : Family
        The function.
    order : int
        From 1 on.
    """

    family: Family
    order: int

    @property
    def name(self) -> str:
        """A name such as ``tanh'``."""
        return self.family.name + "'" * self.order

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """A single branch."""
        return (DerivativeBranch(self.family, self.order),)

    @property
    def reflection(self) -> tuple[float, float] | None:
        """The symmetry of even or odd derivatives."""
        sign = self.family.sign(self.order)
        return None if sign is None else (sign, 0.0)

    @property
    def derivative(self) -> Slope:
        """The next derivative."""
        if self.order >= DEEPEST:
            raise NetworkError(
                f"derivatives of {self.family.name} beyond order {DEEPEST} are not supported, for "
                "bounds of an activation need three more.  Remedy: ask for lower derivatives"
            )
        return Slope(1.0, Derivative(self.family, self.order + 1))


def turning_points(
    polynomial: fmpz_poly, point: Callable[[arb], tuple[arb, arb]]
) -> tuple[Turn, ...]:
    """Return turning points at the real roots of a polynomial, as float64 numbers.

    Parameters
    ----------
    polynomial : fmpz_poly
        Without multiple roots.
    point : callable
        Maps a root to the place of the turning point and the value there.
    """
    with ctx.workprec(BITS):
        roots = [root.real for root, _ in polynomial.complex_roots() if root.imag.contains(0)]
        pairs = [point(root) for root in sorted(roots, key=float)]
        return tuple(Turn(float(at.mid()), float(value.mid())) for at, value in pairs)


def horner(polynomial: fmpz_poly, x: FloatArray) -> FloatArray:
    """Return a polynomial at `x`."""
    *rest, last = map(float, polynomial.coeffs())
    found = np.full_like(x, last)
    for one in reversed(rest):
        found = found * x + one
    return found
