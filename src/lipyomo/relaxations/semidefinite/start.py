"""Multipliers of one problem as a start for another one of its shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Start:
    """Multipliers of a problem for others of its shape.

    Attributes
    ----------
    units : ndarray of int, shape (F,)
        Its unstable units.
    multipliers : mapping of int to (ndarray, ndarray)
        For targets, zeta of shape (d,) and lambda of shape (F,).
    shared : (ndarray, ndarray), optional
        Such that prove bounds of all targets.
    """

    units: IntArray
    multipliers: Mapping[int, tuple[FloatArray, FloatArray]]
    shared: tuple[FloatArray, FloatArray] | None = None

    def fitted(self, lam: FloatArray, units: IntArray) -> FloatArray:
        """Those of other unstable units, for which there are none the median."""
        usual = float(np.median(lam)) if lam.size else 1.0
        place = np.full(max(self.units.max(initial=-1), units.max(initial=-1)) + 1, usual)
        place[self.units] = lam
        return np.asarray(place[units])

    def after(self, other: Start) -> Start:
        """With what an earlier one has for targets that this one has none for."""
        own = other.multipliers.items()
        known = {t: (zeta, other.fitted(lam, self.units)) for t, (zeta, lam) in own}
        shared = self.shared
        if shared is None and other.shared is not None:
            shared = other.shared[0], other.fitted(other.shared[1], self.units)
        return Start(self.units, known | dict(self.multipliers), shared)
