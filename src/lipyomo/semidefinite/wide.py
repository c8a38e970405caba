"""Newton's method on the multipliers when inputs are many and open units are few.

With zeta diagonal, ``C = [[Z, -E/2], [-E^T/2, M]]`` and the inputs are eliminated:
``K = M - E^T Z^{-1} E / 4`` is as small as the number of open units F.
"""

from __future__ import annotations

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.semidefinite.newton import Batch, Stop, minimise


def minimise_wide(
    rows: FloatArray,
    objective: FloatArray,
    inputs: int,
    start: tuple[FloatArray, FloatArray] | None,
    stop: Stop,
) -> tuple[FloatArray, FloatArray, FloatArray, int]:
    """Minimise the bound of one functional over the cube of directions.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
    objective : ndarray, shape (d + F,)
    inputs : int
        d.
    start : (zeta, lambda), optional
    stop : Stop

    Returns
    -------
    zeta, lambda, primal, iterations
    """
    batch = Batch(rows[None], objective[None], np.ones((1, len(rows)), bool), inputs, False)
    warm = None if start is None else np.concatenate(start)[None]
    _, best, primal, steps = minimise(batch, warm, stop)
    return best[0, :inputs], best[0, inputs:], primal[0], int(steps[0])
