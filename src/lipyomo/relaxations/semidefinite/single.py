"""Newton systems of wide kernels in single precision: half of the time of a large step.

A Newton step is only a search direction, whose length is found in double precision, and bounds are
proved for any multipliers.  Seven digits are therefore enough, as long as the Hessian stays
positive definite.  Its terms are added up in an order without cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg.lapack import spotrf, spotrs

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.kernel import NewtonSystem

SingleArray = npt.NDArray[np.float32]

_LARGEST = 1e12
"""Limit of multipliers and their inverses: squares of their products stay normal numbers."""


def fits_single(multipliers: FloatArray) -> bool:
    """Whether positive multipliers are safe from overflow and underflow in single precision."""
    least, largest = multipliers.min(initial=1.0), multipliers.max(initial=1.0)
    return bool(least > 1.0 / _LARGEST and largest < _LARGEST)


@dataclass(frozen=True, eq=False)
class SingleTerms:
    """Products over ``C^{-1}`` of the inputs' unit vectors and of the terms ``sym(a b^T)``.

    Attributes
    ----------
    inner : ndarray of float32, shape (d, d)
        The inputs' block of ``C^{-1}``.
    AA, AB, BB : ndarray of float32, shape (T, T)
    A_inputs, B_inputs : ndarray of float32, shape (d, T)
    """

    inner: SingleArray
    AA: SingleArray
    AB: SingleArray
    BB: SingleArray
    A_inputs: SingleArray
    B_inputs: SingleArray

    def hessian(self, v: FloatArray, a: FloatArray, b: FloatArray, mu: float) -> SingleArray:
        """Return second derivatives of the barrier function, on and above the diagonal.

        With the moments ``M = mu C^{-1} + x x^T`` the one by two terms ``sym(a b^T)`` and
        ``sym(e f^T)`` is half of ``(a C^{-1} e)(b M f) + (a C^{-1} f)(b M e)``, plus half of the
        terms of ``x x^T`` with both pairs exchanged.

        Parameters
        ----------
        v : ndarray, shape (d,)
            Inputs' part of the primal.
        a, b : ndarray, shape (T,)
            Products of the terms' vectors with the primal.
        mu : float
        """
        x, s, t = (part.astype(np.float32) for part in (v, a, b))
        d = v.size
        found = np.zeros((d + a.size, d + a.size), dtype=np.float32)
        units = np.multiply(self.AB, mu * self.AB.T + np.outer(2.0 * t, s))
        units += np.multiply(self.AA, mu * self.BB + np.outer(t, t))
        units += np.multiply(self.BB, np.outer(s, s))
        found[d:, d:] = 0.25 * (units + units.T)
        mixed = np.multiply(self.A_inputs, mu * self.B_inputs + np.outer(x, t))
        mixed += np.multiply(self.B_inputs, np.outer(x, s))
        found[:d, d:] = mixed
        found[:d, :d] = np.multiply(self.inner, mu * self.inner + np.outer(2.0 * x, x))
        return found


def solved_in_single(
    plain: FloatArray, barrier: FloatArray, hessian: SingleArray
) -> NewtonSystem | None:
    """Factorise a Hessian, of which the upper triangle is read and overwritten.

    None if it is not positive definite in single precision.
    """
    diagonal = hessian.diagonal().astype(np.float64)
    if not (np.isfinite(hessian).all() and diagonal.min(initial=1.0) > 0):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    single = scale.astype(np.float32)
    hessian *= single
    hessian *= single[:, None]
    hessian.reshape(-1)[:: len(hessian) + 1] = 1.0 + 16 * np.finfo(np.float32).eps
    factor, info = spotrf(hessian.T, lower=1, clean=0, overwrite_a=1)
    if info:
        return None

    def solve(right: FloatArray) -> FloatArray:
        found, _ = spotrs(factor, (right * scale).astype(np.float32), lower=1)
        return np.asarray(found * scale)

    return NewtonSystem(plain, barrier, solve)
