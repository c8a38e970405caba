"""How long dense linear algebra takes: by its size, and on the machine of the moment.

`seconds_of` turns operations into seconds of one quiet core.  Large matrices are many times faster
an operation than small ones, so that its rate grows with the work: 5e9 operations a second for
calls of milliseconds, 40e9 for those of seconds (Newton steps with 30 to 1,700 open units).

`fits` compares with time that is left.  Where it matters, it first times a small factorisation and
a product here and now, which tells a slow or busy machine from that core.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable

import numpy as np

from lipyomo.arrays import Matrix

_RATE = 5e9
_SMALL = 1e7
"""Operations a second of small work, and the operations up to which work is small."""

_GROWTH, _MOST = 0.3, 8.0
"""The rate grows with this power of the work, up to so many times."""

SPARSE = 8.0
"""Dense entries that one of a sparse matrix costs as much time as."""

_ORDER, _ROUNDS = 192, 12
_USUAL = 0.0007
"""Seconds that a round of the trial takes on the core which the rates were measured on."""

_CLEAR = 8.0
"""Predictions that are so many times below or above the time left need no trial."""


def seconds_of(operations: float) -> float:
    """About how long so many operations take on one quiet core."""
    growth = min(math.pow(max(operations / _SMALL, 1.0), _GROWTH), _MOST)
    return operations / (_RATE * growth)


def dense_entries(matrix: Matrix) -> float:
    """How many entries of a dense matrix take as much time as those of this one."""
    return float(matrix.size) * (1.0 if isinstance(matrix, np.ndarray) else SPARSE)


_TERMS = 1e6
"""Terms of a Pyomo model that are written, and handed to a solver, in a second."""

_PYOMO = 0.7
"""Seconds that the import of Pyomo takes, which imports the statistics of SciPy."""


def model_terms(weights: Iterable[Matrix]) -> float:
    """About how many terms the model of a network has."""
    return 2.0 * sum(weight.size for weight in weights)


def model_seconds(weights: Iterable[Matrix]) -> float:
    """About how long a network's model takes to be written and handed to a solver."""
    return model_terms(weights) / _TERMS + (0.0 if "pyomo.environ" in sys.modules else _PYOMO)


_AGE = 2.0
"""Seconds after which a trial is out of date."""

_last = (-math.inf, 1.0)


def pace() -> float:
    """Wall-clock seconds here for a predicted second, at least a half; some milliseconds' trial."""
    global _last
    began = time.perf_counter()
    if began - _last[0] > _AGE:
        matrix = np.random.default_rng(0).standard_normal((_ORDER, _ORDER))
        for _ in range(_ROUNDS):
            np.linalg.cholesky(matrix @ matrix.T + _ORDER * np.eye(_ORDER))
        now = time.perf_counter()
        _last = now, max((now - began) / (_ROUNDS * _USUAL), 0.5)
    return _last[1]


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
    if not math.isfinite(left) or seconds * _CLEAR <= left:
        return True
    return seconds <= _CLEAR * left and seconds * pace() <= left
