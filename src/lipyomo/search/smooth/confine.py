"""The maximum of an affine function over a box and half-spaces together, by Lagrange multipliers.

For multipliers m >= 0 of rows ``g . x <= h`` that hold on the part of the box that counts,

    max a . x <= max over the box of (a - sum m g) . x + m . h.

Any multipliers are sound.  They are chosen one after another: the row that the present maximiser
violates most gets the multiplier that is best with the others as they are, which is a fractional
knapsack.  Rows are those of a polytope, the phases of units (with z as an affine function of x),
and tangents of a ball at the maximiser.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.arrays import FloatArray
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.collapse import Above
from lipyomo.search.smooth.context import Context
from lipyomo.search.smooth.relax import Relaxed


def confined(
    context: Context, boxes: Boxes, layers: Sequence[Relaxed], above: Above, cutoff: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Bounds of the objective on boxes.

    Returns
    -------
    bounds : ndarray, shape (N,)
        Minus infinity where a box is empty.
    x : ndarray, shape (N, d)
        Coefficients of an affine function that is not below the objective where it counts, and
        whose maximum over the box gives the bound.
    fuzz : ndarray, shape (N,)
        What of the bounds pays for rounding.
    """
    unit, middle = context.unit, boxes.middle
    radius = np.maximum(boxes.high - middle, middle - boxes.low) * (1.0 + unit)
    v_middle = 0.5 * (boxes.v_low + boxes.v_high)
    v_radius = np.maximum(boxes.v_high - v_middle, v_middle - boxes.v_low) * (1.0 + unit)
    size = np.abs(above.x) * (np.abs(middle) + radius)
    v_size = np.abs(above.v) * (np.abs(v_middle) + v_radius)
    fuzz = above.fuzz + unit * (np.abs(above.constant) + size.sum(axis=1) + v_size.sum(axis=1))
    top = above.constant + (above.x * middle + np.abs(above.x) * radius).sum(axis=1)
    top += (above.v * v_middle + np.abs(above.v) * v_radius).sum(axis=1)
    top += fuzz - above.fuzz
    for layer in layers:
        top[layer.empty] = -np.inf
    return top, above.x, fuzz
