"""Products of units that vanish, with their multipliers, as parts of the matrix C."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.linear.pairs import Pairs


def pair_matrices(
    pairs: Pairs, multipliers: FloatArray, units: int
) -> tuple[sp.csr_array, sp.csr_array]:
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
    implied, exclusive : sparse array, shape (F, F)
        The sums are ``s^T implied (s - u)`` and ``s^T exclusive s``, the latter matrix symmetric.
    """
    shape, i, j = (units, units), pairs.first, pairs.second
    on, off = np.flatnonzero(~pairs.exclusive), np.flatnonzero(pairs.exclusive)
    implied = sp.csr_array((multipliers[on], (i[on], j[on])), shape=shape)
    exclusive = sp.csr_array((0.5 * multipliers[off], (i[off], j[off])), shape=shape)
    return implied, sp.csr_array(exclusive + exclusive.T)
