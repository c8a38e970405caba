"""Proof that a symmetric matrix is positive (semi)definite, in floating-point arithmetic."""

from __future__ import annotations

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.numerics.rounding import UNIT_ROUNDOFF


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
        if _factors(matrix, shift):
            return shift + cholesky_slack(trace + n * shift, n) + error
        shift = max(4.0 * shift, 1e-15 * scale, 1e-300)
    return float("inf")


def _factors(matrix: FloatArray, shift: float) -> bool:
    shifted = matrix if shift == 0.0 else matrix + shift * np.eye(len(matrix))
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return False
    return True


def proved_definite(matrix: FloatArray, error: FloatArray) -> bool:
    """Whether the exact matrix is proved positive definite.

    Parameters
    ----------
    matrix : ndarray, shape (n, n)
        Symmetric, the computed matrix.
    error : ndarray, shape (n, n)
        Bounds of the absolute errors of its entries.
    """
    diagonal = np.diagonal(matrix)
    if not (np.isfinite(matrix).all() and (diagonal > 0).all()):
        return False
    scale = 1.0 / np.sqrt(diagonal)
    unit = matrix * scale[:, None] * scale
    spread = error * scale[:, None] * scale + 8 * UNIT_ROUNDOFF * np.abs(unit)
    n = len(matrix)
    needed = float(np.sqrt(np.sum(np.square(spread)))) + cholesky_slack(2.0 * n, n)
    return _factors(unit, -needed)
