"""Proof that a symmetric matrix is positive (semi)definite, in floating-point arithmetic."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF


def cholesky_slack(trace: float, size: int) -> float:
    """A shift that covers the rounding of a Cholesky factorisation.

    If the factorisation of ``A - s I`` runs to its end and s is at least this number, then A is
    positive definite (Rump, "Verification of positive definiteness", BIT 46, 2006).
    """
    return 2.0 * UNIT_ROUNDOFF * (size + 2) * abs(trace)


def proved_shift(matrix: FloatArray, error: float) -> float:
    """A shift s such that ``exact + s I`` is proved positive semidefinite.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        Symmetric, the computed matrix.
    error : float
        Bound of the spectral norm of ``exact - matrix``.

    Returns
    -------
    float
        As small as the rounding allows when `matrix` is positive definite; infinite if no shift
        up to the size of the matrix works.
    """
    n = len(matrix)
    if n == 0:
        return 0.0
    scale = float(np.abs(matrix).sum(axis=1).max())
    trace = float(np.abs(np.diagonal(matrix)).sum())
    shift = 0.0
    while shift <= 2.0 * scale:
        shifted = matrix if shift == 0.0 else matrix + shift * np.eye(n)
        if cholesky_or_none(shifted) is not None:
            return shift + cholesky_slack(trace + n * shift, n) + error
        shift = max(4.0 * shift, 1e-15 * scale, 1e-300)
    return float("inf")


def cholesky_or_none(matrix: FloatArray, overwrite: bool = False) -> FloatArray | None:
    """The lower Cholesky factor, or None if the factorisation breaks down."""
    factor, info = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=overwrite)
    return factor if info == 0 else None


def powers(sizes: FloatArray) -> FloatArray:
    """Powers of two about ``1 / sqrt(size)``, by which scaling rounds nothing; one for zero."""
    exponents = np.frexp(np.where(sizes > 0.0, sizes, 1.0))[1]
    return np.asarray(np.ldexp(1.0, -(exponents // 2)))
