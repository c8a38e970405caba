"""How long dense linear algebra takes: by its size, and on the machine of the moment.

`seconds_of` turns operations into seconds of one quiet core.  Large matrices are many times faster
an operation than small ones, so that its rate grows with the work: 5e9 operations a second for
calls of milliseconds, 40e9 for those of seconds (Newton steps with 30 to 1,700 open units).

`fits` compares with time that is left.  It first times a small factorisation and a product here and
now, which tells a slow or busy machine from that core.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from lipyomo.arrays import Matrix
from lipyomo.numerics.params import PARAMS


def seconds_of(operations: float) -> float:
    """About how long so many operations take on one quiet core."""
    growth = min(math.pow(max(operations / PARAMS.small, 1.0), PARAMS.growth), PARAMS.most)
    return operations / (PARAMS.rate * growth)


def dense_entries(matrix: Matrix) -> float:
    """How many entries of a dense matrix take as much time as those of this one."""
    return float(matrix.size) * (1.0 if isinstance(matrix, np.ndarray) else PARAMS.sparse)


def model_terms(weights: Iterable[Matrix]) -> float:
    """About how many terms the model of a network has."""
    return 2.0 * sum(weight.size for weight in weights)


def model_seconds(weights: Iterable[Matrix]) -> float:
    """About how long a network's model takes to be written and handed to a solver."""
    imports = 0.0 if "pyomo.environ" in sys.modules else PARAMS.pyomo
    return model_terms(weights) / PARAMS.terms + imports


def pace() -> float:
    """Wall-clock seconds here for a predicted second, at least a half; some milliseconds' trial."""
    return _trial(int(time.monotonic() / PARAMS.age))


@lru_cache(maxsize=1)
def _trial(_: int) -> float:
    """The trial of one period."""
    began = time.perf_counter()
    eye = np.eye(PARAMS.order)
    matrix = np.random.default_rng(0).standard_normal(eye.shape)
    for _ in range(PARAMS.rounds):
        np.linalg.cholesky(matrix @ matrix.T + PARAMS.order * eye)
    return max((time.perf_counter() - began) / (PARAMS.rounds * PARAMS.usual), 0.5)


def fits(seconds: float, left: float) -> bool:
    """Whether what is predicted to take so many seconds ends within those that are left.

    Parameters
    ----------
    seconds : float
        Of one quiet core, as `seconds_of` has them.
    left : float
        Wall-clock seconds; may be infinite.
    """
    if left <= 0:
        return False
    return not math.isfinite(left) or seconds * pace() <= left
