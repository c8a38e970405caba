"""What is known of x and v on boxes, and maxima over a box and one half-space together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lipyomo.arrays import FloatArray
from lipyomo.search.smooth.boxes import Boxes
from lipyomo.search.smooth.context import Context


@dataclass(frozen=True, eq=False)
class Signal:
    """Ranges ``middle +- radius`` of h (or t), and the largest absolute value; shape (N, n)."""

    middle: FloatArray
    radius: FloatArray
    size: FloatArray


class Row(NamedTuple):
    """The half-space ``g . x <= h``, g of the shape (d,)."""

    g: FloatArray
    h: float


class Inputs(NamedTuple):
    """Ranges of x and v.

    Attributes
    ----------
    x, v : Signal
        On N boxes; x may be one box that all directions share.
    row : Row, optional
        Where else x lies, for one box.
    """

    x: Signal
    v: Signal
    row: Row | None = None


def inputs_of(
    context: Context,
    boxes: Boxes,
    v_low: FloatArray,
    v_high: FloatArray,
    row: Row | None = None,
) -> Inputs:
    """X and v on boxes, for directions between `v_low` and `v_high` (N, d)."""
    unit, middle = context.unit, boxes.middle
    radius = np.maximum(boxes.high - middle, middle - boxes.low) * (1.0 + unit)
    v_middle = 0.5 * (v_low + v_high)
    v_radius = np.maximum(v_high - v_middle, v_middle - v_low) * (1.0 + unit)
    return Inputs(
        Signal(middle, radius, np.abs(middle) + radius),
        Signal(v_middle, v_radius, np.abs(v_middle) + v_radius),
        row,
    )


def largest(a: FloatArray, x: Signal, row: Row | None, unit: float) -> FloatArray:
    """Bounds (M,) of ``a . x`` for rows `a` (M, d) on one box, and where the half-space holds.

    Rounding: what products and sums are off by is added; `unit` pays for them as in `relax.py`.
    """
    size = np.abs(a) @ x.size[0]
    top = a @ x.middle[0] + np.abs(a) @ x.radius[0] + unit * size
    if row is None:
        return np.asarray(top)
    g, h = np.broadcast_to(row.g, a.shape), np.full(len(a), row.h)
    m = best_multiplier(a, g, h, x)
    away = a - m[:, None] * g
    size = size + m * (np.abs(row.g) @ x.size[0] + abs(row.h))
    other = m * row.h + away @ x.middle[0] + np.abs(away) @ x.radius[0] + 2.0 * unit * size
    return np.asarray(np.fmin(top, other))


def best_multiplier(a: FloatArray, g: FloatArray, h: FloatArray, x: Signal) -> FloatArray:
    """The m >= 0 at which ``max over the box of (a - m g) . x + m h`` is least.

    Its derivative ``h - g . x*(m)`` grows where an entry of ``a - m g`` changes its sign.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        at = np.where(a * g > 0, a / g, np.inf)
    order = np.argsort(at, axis=1)
    worst = x.middle + np.where(a != 0, np.sign(a), -np.sign(g)) * x.radius
    rises = np.take_along_axis(2.0 * np.abs(g) * x.radius, order, axis=1).cumsum(axis=1)
    ends = np.take_along_axis(at, order, axis=1)
    slope = h - (g * worst).sum(axis=1)
    enough = (slope[:, None] + rises >= 0) | ~np.isfinite(ends)
    place = np.where(enough.any(axis=1), enough.argmax(axis=1), ends.shape[1] - 1)
    last = np.where(np.isfinite(ends), ends, 0.0).max(axis=1)
    found = np.take_along_axis(ends, place[:, None], axis=1)[:, 0]
    return np.where(slope < 0, np.where(np.isfinite(found), found, last), 0.0)
