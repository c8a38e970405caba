"""Boxes, the parts of the search space, as arrays; a bundle of them is a node of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.numerics.exact import affine_value, exact
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.bundle import Bundle


@dataclass(frozen=True, eq=False)
class Boxes(Bundle):
    """N boxes, each with ranges of inputs x, directions v and phases, and a functional.

    Attributes
    ----------
    bounds : ndarray, shape (N,)
        Proved upper bounds; minus infinity for empty boxes.
    low, high : ndarray, shape (N, d)
        Range of x.
    v_low, v_high : ndarray, shape (N, k)
        Range of the direction; zeros for the l2 norm, whose direction follows from the box.
    floor, ceiling : ndarray, shape (N, p)
        Phases: ranges of the pre-activations of the units whose slope has breaks.
    rows : ndarray of int, shape (N,)
        The functional, a row of `Targets.functionals`; -1 for all of a Euclidean ball.
    scores : ndarray, shape (N, d + k + p)
        Share of the bound's gap due to each input, entry of the direction, and phase.
    half, room : ndarray, shapes (N, d) and (N,)
        The box is restricted to ``half . x <= room``; an infinite room is no restriction.
    """

    bounds: FloatArray
    low: FloatArray
    high: FloatArray
    v_low: FloatArray
    v_high: FloatArray
    floor: FloatArray
    ceiling: FloatArray
    rows: IntArray
    scores: FloatArray
    half: FloatArray
    room: FloatArray

    @classmethod
    def whole(cls, context: BoxContext) -> Boxes:
        """Return the boxes of the whole problem."""
        found = cls.over(context, context.domain.lower[None], context.domain.upper[None])
        floor, ceiling = (np.tile(ends, (len(found), 1)) for ends in at_faces(context))
        return replace(found, floor=floor, ceiling=ceiling)

    @classmethod
    def over(cls, context: BoxContext, low: FloatArray, high: FloatArray) -> Boxes:
        """Make boxes over n input boxes (n, d): one per functional, for the l1 norm two per target.

        With the l1 norm there is one for either sign of the direction; the ranges of directions of
        the other norms contain both.
        """
        targets, k = context.targets, context.directions
        phases, rows = len(context.structure.breaks), targets.rows
        if targets.norm == "l1":
            along = np.eye(k)[targets.columns]
            v_low = v_high = np.concatenate([along, -along])
            rows = np.concatenate([rows, rows])
        else:
            v_high = np.full((len(rows), k), float(targets.norm == "linf"))
            v_low = -v_high
            if targets.whole_ball:  # a direction and its negative have the same length
                v_low[:, 0] = v_high[:, 0]
        below, above = (np.repeat(end, len(rows), axis=0) for end in (low, high))
        rows, v_low, v_high = (
            np.concatenate([array] * len(low)) for array in (rows, v_low, v_high)
        )
        count = len(rows)
        infinite = np.full(count, np.inf)
        floor, ceiling = (np.full((count, phases), end) for end in (-np.inf, np.inf))
        scores = np.zeros((count, context.inputs + k + phases))
        ends = (below, above, v_low, v_high, floor, ceiling)
        return cls(infinite, *ends, rows, scores, np.zeros((count, context.inputs)), infinite)


class Frame(NamedTuple):
    """Functionals and directions of N boxes.

    Attributes
    ----------
    rows, errors : ndarray, shape (N, n_L)
        The functional times the last weights, and bounds of the rounding errors of this product.
    v_low, v_high : ndarray, shape (N, d)
        Range of the direction.
    y : ndarray, shape (N, m), or None
        The functional, if the output's norm is Euclidean.
    """

    rows: FloatArray
    errors: FloatArray | None
    v_low: FloatArray
    v_high: FloatArray
    y: FloatArray | None = None

    @classmethod
    def given(cls, context: BoxContext, boxes: Boxes) -> Frame:
        """Return the functionals and directions of the boxes themselves."""
        errors = context.row_errors[boxes.rows] if context.row_errors.any() else None
        return cls(context.rows[boxes.rows], errors, boxes.v_low, boxes.v_high)


def at_faces(context: BoxContext) -> tuple[FloatArray, FloatArray]:
    """Floors and ceilings (p,) for units of the first layer with a break at a face of the domain.

    They are decided in exact arithmetic.  Ranges widened by rounding would leave a phase without
    interior open, which could be split off at the face forever.
    """
    floor, ceiling = (np.full(len(context.structure.breaks), end) for end in (-np.inf, np.inf))
    if not context.stages or not context.domain.is_bounded or context.features is not None:
        return floor, ceiling
    stage, low, high = context.stages[0], context.domain.lower, context.domain.upper
    for k, unit in enumerate(stage.broken.tolist()):
        weight, bias = stage.weight[unit], float(stage.bias[unit])
        sizes = stage.sizes[unit] @ np.maximum(np.abs(low), np.abs(high))
        size = context.unit * (float(sizes) + abs(bias))
        ends = np.where(weight > 0, low, high), np.where(weight > 0, high, low)
        least, largest = (float(weight @ x) + bias for x in ends)
        for place in context.structure.breaks[k]:
            for side, value in enumerate((least, largest)):
                if abs(value - place) > 4.0 * size:
                    continue
                gap = affine_value(weight, ends[side], bias) - exact(place)
                if side == 0 and gap >= 0:
                    floor[k] = max(floor[k], place)
                elif side == 1 and gap <= 0:
                    ceiling[k] = min(ceiling[k], place)
    return floor, ceiling
