"""The Jacobian as an affine function of x with an error, computed backwards, entry by entry.

With x = middle + radius delta, delta in [-1, 1]^d, the adjoints of a layer are (for the inputs that
move)

    y = F_0 + F delta +- e,      sigma'(z) = p + q delta +- r,      sigma'(z) in rate +- rr,

so that, by ``sigma' y = F_0 sigma' + rate (y - F_0) + (sigma' - rate)(y - F_0)``, adjoints of the
layer before are ``W^T`` times

    p F_0 + (F_0 q + rate F) delta +- (|rate| e + |F_0| r + rr (|F| + e))

where |F| stands for sums of absolute values; the error is O(h^2).  This shows which entries have
only one sign, and bounds the blocks across a direction.  For a product, the other factor's z takes
the place of sigma'(z).

Rounding is covered as in `relax.py`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation


class Enclosed(NamedTuple):
    """``middle + slopes . delta +- rest`` for each of k functionals and d inputs, on N boxes.

    Attributes
    ----------
    middle, rest : ndarray, shape (N, k, d)
    slopes : ndarray, shape (N, k, m, d)
        The third axis is that of delta, for the m inputs with a width on any box.
    """

    middle: FloatArray
    slopes: FloatArray
    rest: FloatArray

    @property
    def radius(self) -> FloatArray:
        """Entries are within `middle` +- this, shape (N, k, d)."""
        return np.asarray(np.abs(self.slopes).sum(axis=2) + self.rest)

    @property
    def ends(self) -> tuple[FloatArray, FloatArray]:
        """Least and largest entries of the first functional, (N, d); their signs are certain."""
        middle, radius = self.middle[:, 0], self.radius[:, 0]
        return middle - radius, middle + radius


def enclosed(known: Relaxation, rows: FloatArray, errors: FloatArray | None) -> Enclosed:
    """Enclose ``rows . J`` on boxes.

    Parameters
    ----------
    known : Relaxation
    rows : ndarray, shape (N, k, n_L)
    errors : ndarray, optional
        Bounds of the errors of the rows.
    """
    context, x = known.context, known.inputs.x
    unit, moving = context.unit, np.flatnonzero(x.radius.any(axis=0))
    shape = (*rows.shape[:2], 1 + moving.size, rows.shape[2])
    F = np.zeros(shape)
    F[:, :, 0] = rows
    rest = np.zeros(rows.shape) if errors is None else np.broadcast_to(errors, rows.shape)
    for stage, layer in zip(reversed(context.stages), reversed(known.layers), strict=True):
        bend, centre, away = layer.bend
        z = np.matmul(layer.pre.x, x.middle[:, :, None])[:, :, 0] + layer.pre.constant
        p = (bend * stage.other(z) + centre)[:, None]
        coefficients = stage.other(np.swapaxes(layer.pre.x[:, :, moving], 1, 2))
        q = bend[:, None, :] * coefficients * x.radius[:, moving, None]
        whole = np.matmul(np.abs(layer.pre.x), x.size[:, :, None])[:, :, 0]
        whole = stage.other(whole + np.abs(layer.pre.constant))
        whole = np.abs(bend) * whole + np.abs(centre)
        r = (away + np.abs(bend) * stage.other(layer.pre.radius) + unit * whole)[:, None]
        rate, rr = layer.rate[:, None], layer.rate_radius[:, None]
        F, rest = stage.spread(F), stage.spread(rest)
        start, linear = np.abs(F[:, :, 0]), np.abs(F[:, :, 1:]).sum(axis=2)
        rest = np.abs(rate) * rest + start * r + rr * (linear + rest)
        rest = rest + unit * (start * (np.abs(p) + np.abs(q).sum(axis=1)[:, None]))
        rest = rest + unit * (np.abs(rate) + rr) * linear
        new = F * rate[:, :, None]
        new[:, :, 0] = F[:, :, 0] * p
        new[:, :, 1:] += F[:, :, :1] * q[:, None]
        total = np.abs(new).sum(axis=2)
        sizes = stage.branch_along_sizes
        rest = rest @ sizes + unit * (total @ sizes)
        F = new @ stage.branch_along
    return Enclosed(F[:, :, 0], F[:, :, 1:], rest * (1.0 + unit))
