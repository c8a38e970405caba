"""The elementary functions that bounds of smooth units rest on, tested before they are trusted.

numpy takes its `exp` from the C library, from Intel's vectors or from loops of its own, whatever
the processor has, and SciPy its `erf` from Cephes.  What they are assumed to be off by is in
`lipyomo.networks.activations.rounding`.  Each of them is compared with stored values when a process
first calls it, in half a millisecond: whole arrays, short ones, which vectors do not fill, and
strided ones, since each of these may go another way.  A function that is off by more is refused.

``python -m experiments elementary`` has made the stored values, by ball arithmetic (Arb).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import PlatformError
from lipyomo.base.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.networks.activations.rounding import ASSUMED, TINY

STORED = Path(__file__).with_name("elementary.npy")
"""An array (functions in the order of `ASSUMED`, 3, arguments): arguments, the float64 numbers next
to the values, and what these are short of."""

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
    find : callable
        Returns the function; asked once.
    """

    def __init__(self, name: str, find: Callable[[], Function]) -> None:
        self.name, self._find = name, find
        self._function: Function | None = None

    def __call__(self, z: FloatArray) -> FloatArray:
        """The function at `z`.

        Raises
        ------
        PlatformError
            If it is off by more than is assumed.
        """
        if self._function is None:
            function = self._find()
            check(self.name, function)
            self._function = function
        return self._function(z)


def check(name: str, function: Function) -> None:
    """Compare a function with stored values.

    Raises
    ------
    PlatformError
        If it is off by more than is assumed, at any of them and in any arrangement.
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
    """Arrays of the arguments, in the ways in which they lie in memory, with their places."""
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


def _special(name: str) -> Callable[[], Function]:
    """A function of SciPy, whose module is loaded when it is needed."""

    def find() -> Function:
        found: Function = getattr(import_module("scipy.special"), name)
        return found

    return find


exp = Elementary("exp", lambda: np.exp)
expm1 = Elementary("expm1", lambda: np.expm1)
log1p = Elementary("log1p", lambda: np.log1p)
tanh = Elementary("tanh", lambda: np.tanh)
arctanh = Elementary("arctanh", lambda: np.arctanh)
sin = Elementary("sin", lambda: np.sin)
cos = Elementary("cos", lambda: np.cos)
erf = Elementary("erf", _special("erf"))
erfc = Elementary("erfc", _special("erfc"))
