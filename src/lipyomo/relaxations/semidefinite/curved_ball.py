"""Pre-activations of a first layer on a cube, enclosed in an affine image of a ball.

With inputs ``x = m + r xi``, |xi| <= 1, and weights w_i > 0 whose sum is at most one, the length of
``eta_i = sqrt(w_i) xi_i`` is at most one, and that of ``u = P eta`` as well if ``P P' <= I``:

    W x + b = (W m + b) + G u,    |u|_2 <= 1,    G P = W diag(r / sqrt(w)).

For many inputs and units this set is far smaller than the product of the ranges of z, most of whose
corners cannot be attained.  G is a Cholesky factor of the right side's Gram matrix.

Rounding.  The residual of ``G P`` is computed and added to the magnitude of z; G is enlarged by the
proved excess of the norm of P over one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF, gamma
from lipyomo.relaxations.semidefinite.verify import proved_shift


@dataclass(frozen=True, eq=False)
class PreactivationBall:
    """Pre-activations of the first layer as ``middle + turn u``, |u|_2 <= 1.

    Attributes
    ----------
    middle : ndarray, shape (n,)
    turn : ndarray, shape (n, n)
    magnitudes : ndarray, shape (n,)
        The error of each pre-activation is at most its magnitude times `error`.
    error : float
    """

    middle: FloatArray
    turn: FloatArray
    magnitudes: FloatArray
    error: float

    @classmethod
    def of(
        cls, weight: FloatArray, bias: FloatArray, low: FloatArray, high: FloatArray
    ) -> PreactivationBall | None:
        """Enclose a cube in a ball; None if the weights vanish or rounding prevents a proof.

        Parameters
        ----------
        weight : ndarray, shape (n, d)
        bias : ndarray, shape (n,)
        low, high : ndarray, shape (d,)
            Bounds of the inputs.
        """
        n, d = weight.shape
        centre = 0.5 * low + 0.5 * high
        radius = np.maximum(high - centre, centre - low) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        reach = weight * radius
        sizes = np.abs(reach).sum(axis=1)
        scaled = reach / np.where(sizes > 0.0, sizes, 1.0)[:, None]
        share = np.sqrt(np.square(scaled).sum(axis=0))
        if not share.sum() > 0.0:
            return None
        share = np.maximum(share / share.sum(), 1e-9 / d)
        share = share / (share.sum() * (1.0 + gamma(d + 4)))
        root = np.sqrt(share)
        wide = reach / root
        gram = wide @ wide.T
        gram[np.diag_indices(n)] *= 1.0 + 1e-10
        gram[np.diag_indices(n)] += 1e-300 + 1e-14 * np.trace(gram) / n
        try:
            factor = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            return None
        part = solve_triangular(factor, wide, lower=True, check_finite=False)
        square = np.eye(n) - part @ part.T
        rounding = gamma(d + 4) * (1.0 + float(np.square(part).sum()))
        excess = proved_shift(0.5 * (square + square.T), rounding)
        if not excess < 1.0:
            return None
        turn = factor * math.sqrt(1.0 + 2.0 * excess)
        error = gamma(n + d + 16)
        missed = np.abs(wide - factor @ part) @ root
        sizes = sizes + np.abs(factor) @ (np.abs(part) @ root) + np.abs(bias)
        sizes = sizes + np.abs(weight) @ np.abs(centre) + np.abs(turn).sum(axis=1)
        middle = weight @ centre + bias
        return cls(middle, turn, 4.0 * sizes + 2.0 * missed / error, error)
