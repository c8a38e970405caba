"""l1 inputs: bounds of single entries of the gradient, all from one set of unit multipliers.

The unit ball of l1 has the vertices ``+-e_j``, so the norm is the largest ``|g_j|``.  For a single
input the optimal zeta has a closed form: with ``h_j = lambda o U_j / 2``, M the units'
block of C and norms in ``M^{-1}``,

    |g_j| <= |c_j + h_j^T M^{-1} c_s| + |h_j|_{M^{-1}} |c_s|_{M^{-1}}.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.relaxations.semidefinite.verify import SizedForm, VerifiedMatrix


def column_bounds(form: SizedForm, lam: FloatArray) -> FloatArray:
    """Prove bounds of ``|g_j|`` for every objective row and input; infinite if the proof fails.

    Parameters
    ----------
    form : SizedForm
    lam : ndarray, shape (F,)
        Positive.

    Returns
    -------
    ndarray, shape (k, d)
    """
    d, k = form.inputs, len(form.objective)
    direct = np.abs(form.objective[:, :d]) + form.rounding * form.objective_size[:, :d]
    if form.count == 0:
        return direct * (1.0 + 4 * UNIT_ROUNDOFF)
    matrix = VerifiedMatrix(form.seeing(np.zeros(0, dtype=np.int64)), np.ones(0), lam)
    if not matrix.accepted:
        return np.full((k, d), np.inf)
    root = np.sqrt(lam)[:, None]
    slack = form.rounding + 8 * UNIT_ROUNDOFF
    h = 0.5 * root * form.rows[:, :d]
    h_error = slack * lengths(0.5 * root * form.row_size[:, :d], axis=0)
    c = (form.objective[:, d:] / root[:, 0]).T
    c_error = slack * lengths(form.objective_size[:, d:] / root[:, 0])
    c_solution, c_rest, c_square = matrix.solve(c)
    _, _, h_square = matrix.solve(h)
    spread = 1.0 / np.sqrt(matrix.kappa)
    rounded = 1.0 + 8 * UNIT_ROUNDOFF
    c_norm = rounded * np.sqrt(c_square) + c_error * spread
    h_norm = rounded * np.sqrt(h_square) + h_error * spread
    cross = form.objective[:, :d] + (h.T @ c_solution).T
    rounding = (
        UNIT_ROUNDOFF * (form.count + 4) * np.outer(lengths(c_solution, axis=0), lengths(h, axis=0))
    )
    loose = np.outer(c_rest + c_error, h_norm) * spread + np.outer(c_norm, h_error) * spread
    total = np.abs(cross) + form.rounding * form.objective_size[:, :d] + rounding + loose
    return np.asarray((total + np.outer(c_norm, h_norm)) * (1.0 + 16 * UNIT_ROUNDOFF))
