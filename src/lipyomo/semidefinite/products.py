"""Products of units that vanish, with their multipliers, as parts of the matrix C."""

from __future__ import annotations

import numpy as np

from lipyomo.bounds.pairs import Pairs
from lipyomo.network import FloatArray


def pair_matrices(
    pairs: Pairs, multipliers: FloatArray, units: int
) -> tuple[FloatArray, FloatArray]:
    """The terms of pairs, ``+ pi s_i (s_j - u_j)`` and ``+ pi s_i s_j``, as matrices.

    Parameters
    ----------
    pairs : Pairs
        By the positions of their units.
    multipliers : ndarray, shape (P,)
    units : int
        F.

    Returns
    -------
    implied, apart : ndarray, shape (F, F)
        The sums are ``s^T implied (s - u)`` and ``s^T apart s``, the latter matrix symmetric.
    """
    implied, apart = np.zeros((units, units)), np.zeros((units, units))
    np.add.at(implied, (pairs.first, pairs.second), np.where(pairs.apart, 0.0, multipliers))
    np.add.at(apart, (pairs.first, pairs.second), np.where(pairs.apart, 0.5 * multipliers, 0.0))
    return implied, apart + apart.T
