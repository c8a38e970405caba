"""Bounds of directional derivatives on boxes, and what they were computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo_check.smooth.boxes import Rows
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.halfspaces import Multiple
from lipyomo_check.smooth.layers import Relaxed
from lipyomo_check.smooth.planes import Planes


@dataclass(frozen=True, eq=False)
class Bounded:
    """The bounds on N boxes.

    Attributes
    ----------
    upper : ndarray, shape (N,)
        ``w . J(x) v`` is at most this (minus infinity where there is no point).
    x, v : ndarray, shapes (N, d) and (N, k)
        Coefficients of an affine upper function, whose maximum on the box `upper` is (or less).
    multiples : tuple of Multiple
        What it has of each half-space.
    planes : tuple of Planes
        Above what the units of each layer add to the objective.
    layers : tuple of Relaxed
    rows : tuple of (Rows, Rows)
        Of each layer's pre-activations and tangents.
    """

    upper: Array
    x: Array
    v: Array
    multiples: tuple[Multiple, ...]
    planes: tuple[Planes, ...]
    layers: tuple[Relaxed, ...]
    rows: tuple[tuple[Rows, Rows], ...]

    def part(self, which: npt.NDArray[np.int64]) -> Bounded:
        """Select some of them, without their layers and rows."""
        multiples = tuple(one.part(which) for one in self.multiples)
        planes = tuple(Planes(*(side[which] for side in one)) for one in self.planes)
        return Bounded(self.upper[which], self.x[which], self.v[which], multiples, planes, (), ())
