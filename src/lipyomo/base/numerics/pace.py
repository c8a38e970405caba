"""How long dense linear algebra takes: by its size, and on the machine of the moment.

`seconds_of` turns operations into seconds of one quiet core, at one rate: calls of milliseconds
take up to four times as long, those of many seconds half of it (Newton steps with 30 to 1,700 open
units).

`fits` compares with time that is left.  Unless that is ample, it first times a factorisation and a
product here and now, which tells a slow or busy machine from that core.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from lipyomo.base.arrays import DENSE, Matrix
from lipyomo.base.numerics.params import PARAMS


def seconds_of(operations: float) -> float:
    """About how long so many operations take on one quiet core."""
    return operations / PARAMS.rate


def dense_entries(matrix: Matrix) -> float:
    """How many entries of a dense matrix take as much time as those of this one."""
    return float(matrix.size) / (1.0 if isinstance(matrix, np.ndarray) else DENSE)


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
    n = PARAMS.order
    matrix = np.random.default_rng(0).standard_normal((n, n))
    began = time.perf_counter()
    np.linalg.cholesky(matrix @ matrix.T + n * np.eye(n))
    return max((time.perf_counter() - began) / seconds_of(7.0 * n**3 / 3.0), 0.5)


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
    return seconds * PARAMS.slowest <= left or seconds * pace() <= left
