"""Elementary functions for the bounds of smooth units, tested before their first use.

Depending on the processor, numpy uses `exp` of the C library, of Intel's vector library or its own
loops, and SciPy uses `erf` of Cephes.  The assumed error bounds are in
`lipyomo.networks.activations.rounding`.  Each function is compared with stored values at its first
call in a process, in half a millisecond: for long arrays, for short ones that do not fill a vector
register, and for strided ones, since these may use different code.  Larger errors are refused.

The stored values were computed by ``python -m experiments elementary`` in ball arithmetic (Arb).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import PlatformError
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.rounding import ASSUMED, TINY

STORED = Path(__file__).with_name("elementary.npy")
"""An array (functions in the order of `ASSUMED`, 3, arguments): arguments, the values rounded to
float64, and the remainders."""

LENGTHS = 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33
"""Lengths of short arrays: less than a vector, a vector, and more."""

LONG = 5000
"""Length of the longest array that is tested: one that fills many vectors and a cache."""

Function = Callable[[FloatArray], FloatArray]


class Elementary:
    """A function of numpy or SciPy, compared with its stored values when it is first called.

    Parameters
    ----------
    name : str
        As in `ASSUMED`.
    module : str, optional
        Where it is.
    """

    def __init__(self, name: str, module: str = "numpy") -> None:
        self.name, self.module = name, module

    @cached_property
    def function(self) -> Function:
        """The function, once it is compared.

        Raises
        ------
        PlatformError
            If its error exceeds the assumed bound.
        """
        found: Function = getattr(import_module(self.module), self.name)
        check(self.name, found)
        return found

    def __call__(self, z: FloatArray) -> FloatArray:
        """Evaluate the function at `z`."""
        return self.function(z)


def check(name: str, function: Function) -> None:
    """Compare a function with stored values.

    Raises
    ------
    PlatformError
        If its error exceeds the assumed bound for any argument in any arrangement.
    """
    points, near, rest = np.load(STORED)[list(ASSUMED).index(name)]
    assumed = ASSUMED[name]
    units = assumed.relative * np.abs(near) + assumed.absolute
    if assumed.squares:
        units = units + assumed.squares * points * points * np.abs(near)
    allowed = units * UNIT_ROUNDOFF * (1.0 + 4.0 * UNIT_ROUNDOFF) + TINY
    with np.errstate(all="ignore"):
        for places, z in _arranged(points):
            off = np.abs((function(z) - near[places]) - rest[places])
            bad = np.flatnonzero(~(off <= allowed[places]))
            if bad.size:
                k = int(bad[np.argmax(off[bad])])
                raise PlatformError(
                    f"the function '{name}' of this installation of numpy or SciPy is off by "
                    f"{off[k]:.2g} at {z[k]!r}, where bounds of smooth units allow for "
                    f"{allowed[places][k]:.2g}.  Remedy: install other builds of numpy and SciPy; "
                    "where numpy has vectorised the function wrongly, the environment variable "
                    'NPY_DISABLE_CPU_FEATURES="AVX512F AVX512_SKX" may turn that off'
                )


def _arranged(points: FloatArray) -> Iterator[tuple[np.ndarray, FloatArray]]:
    """Yield arrays of the arguments in different memory layouts, with their positions."""
    every = np.arange(points.size)
    yield every, points
    yield every[::-1], points[::-1]
    apart = np.zeros((points.size, 3))
    apart[:, 1] = points
    yield every, apart[:, 1]
    many = np.resize(every, LONG)
    yield many, points[many]
    start, turn = 0, 0
    while start < points.size:
        part = every[start : start + LENGTHS[turn % len(LENGTHS)]]
        yield part, points[part]
        start, turn = start + part.size, turn + 1


exp = Elementary("exp")
expm1 = Elementary("expm1")
log1p = Elementary("log1p")
tanh = Elementary("tanh")
arctanh = Elementary("arctanh")
sin = Elementary("sin")
cos = Elementary("cos")
erf = Elementary("erf", "scipy.special")
erfc = Elementary("erfc", "scipy.special")


def logistic(y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """``p = 1 / (1 + exp(-y))`` and ``q = 1 - p``, with relative errors below 20 u.

    Both are made from e = exp(-|y|) <= 1, so that neither loses its relative precision: e is off by
    8 u, ``1 / (1 + e)`` by 10 u, ``e / (1 + e)`` by 19 u.
    """
    e = exp(-np.abs(y))
    large = 1.0 / (1.0 + e)
    small = e * large
    right = y >= 0.0
    return np.where(right, large, small), np.where(right, small, large)


def tanh_slope(z: FloatArray) -> FloatArray:
    """tanh', off by 24 u: ``4 e / (1 + e)**2`` with e = exp(-2 |z|), never ``1 - tanh**2``."""
    e = exp(-2.0 * np.abs(z))
    d = 1.0 + e
    return 4.0 * e / (d * d)
