"""Ranges of x and v on boxes, affine functions of both, and the ranges of these functions.

A box may be restricted to a half-space.  For any m >= 0

    max a . x <= max over the box of (a - m g) . x + m h        where g . x <= h,

and the best m solves a fractional knapsack; approximations are nearly as good and need no sorting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray, middles
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.structure.stage import Copies


class Signal(NamedTuple):
    """Ranges ``middle +- radius``, and bounds of the absolute values; shape (N, n)."""

    middle: FloatArray
    radius: FloatArray
    size: FloatArray

    @classmethod
    def around(cls, middle: FloatArray, low: FloatArray, high: FloatArray, unit: float) -> Signal:
        """Make ranges [low, high] about a given middle; `unit` covers rounding of the radius."""
        radius = np.maximum(high - middle, middle - low) * (1.0 + unit)
        return cls(middle, radius, np.abs(middle) + radius)

    @classmethod
    def between(cls, low: FloatArray, high: FloatArray, unit: float) -> Signal:
        """Make ranges about their midpoints."""
        return cls.around(middles(low, high), low, high, unit)

    def take(self, which: IntArray) -> Signal:
        """Select the ranges of some boxes."""
        return Signal(self.middle[which], self.radius[which], self.size[which])


class HalfSpace(NamedTuple):
    """Half-spaces ``g . x <= h`` of N boxes, shapes (N, d) and (N,); h = inf for none."""

    g: FloatArray
    h: FloatArray


class Inputs(NamedTuple):
    """Ranges of x and v.

    Attributes
    ----------
    x, v : Signal
        Ranges on N boxes; x may be one box that all directions share.
    row : HalfSpace, optional
        Half-spaces to which the boxes are restricted.
    """

    x: Signal
    v: Signal
    row: HalfSpace | None


def inputs_of(context: BoxContext, boxes: Boxes, v_low: FloatArray, v_high: FloatArray) -> Inputs:
    """Make the ranges of x and v on boxes, for directions between `v_low` and `v_high` (N, d)."""
    return Inputs(
        Signal.between(boxes.low, boxes.high, context.unit),
        Signal.around(0.5 * (v_low + v_high), v_low, v_high, context.unit),
        HalfSpace(boxes.half, boxes.room) if np.isfinite(boxes.room).any() else None,
    )


USUAL = 0.7
"""Usually best factor of approximate multipliers; it is smaller for rows almost parallel to g."""


def spans(rows: FloatArray, inputs: Inputs, unit: float) -> tuple[FloatArray, FloatArray]:
    """Return how far ``rows . x`` extends below and above its value at the middles; (N, n) each.

    Rows have shape (N, n, d) or (1, n, d).  The caller covers the rounding of the sums over x; that
    of the multipliers is covered here.
    """
    x, row = inputs.x, inputs.row
    if row is None:
        whole = times(np.abs(rows), x.radius)
        return whole, whole
    scaled, g = rows * x.radius[:, None], row.g * x.radius
    whole, reach = np.abs(scaled).sum(axis=2), np.abs(g).sum(axis=1)
    room = row.h - (row.g * x.middle).sum(axis=1)
    room = room + unit * (np.abs(row.h) + (np.abs(row.g) * x.size).sum(axis=1))
    room = np.where(room < reach, room, reach)
    ends = []
    for turned in (-scaled, scaled):
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow gives no bound
            m = _multipliers(turned, whole, g, reach, room)
            size = whole + m * (reach + np.abs(room))[:, None]
            away = np.abs(turned - m[:, :, None] * g[:, None]).sum(axis=2)
            ends.append(np.fmin(whole, away + m * room[:, None] + 4.0 * unit * size))
    return ends[0], ends[1]


def _multipliers(
    rows: FloatArray, whole: FloatArray, g: FloatArray, reach: FloatArray, room: FloatArray
) -> FloatArray:
    """Multipliers (N, n) for rows over [-1, 1]^d: the best ones for one box, else approximations.

    If the half-space leaves a share of the range of g . x, the best multiplier is about the ratio
    a / g that this share of the entries exceeds; the number of entries above a ratio is taken to
    fall exponentially with it.
    """
    if len(rows) == 1:
        count, d = rows.shape[1:]
        cube = Signal(np.zeros((1, d)), np.ones((1, d)), np.ones((1, d)))
        many = np.broadcast_to(g, (count, d)), np.broadcast_to(room, count)
        return best_multiplier(rows[0], *many, cube)[None]
    some = np.where(reach > 0, reach, 1.0)
    share = np.clip(0.5 + 0.5 * room / some, UNIT, 1.0)
    return np.asarray(whole * (-USUAL * np.log(share) / some)[:, None])


def highest(rows: FloatArray, inputs: Inputs, unit: float) -> FloatArray:
    """Bound ``rows . x`` from above, (N,), for rows (N, d) on N boxes or one, with rounding."""
    x = inputs.x
    size = (np.abs(rows) * x.size).sum(axis=1)
    alone = len(x.middle) == 1
    above = spans(rows[None] if alone else rows[:, None], inputs, unit)[1].reshape(-1)
    return np.asarray((rows * x.middle).sum(axis=1) + above + 2.0 * unit * size)


def times(rows: FloatArray, vectors: FloatArray) -> FloatArray:
    """Multiply rows (N, n, k), or (1, n, k), by vectors (N, k)."""
    if rows.shape[0] == 1:
        return np.asarray(vectors @ rows[0].T)
    return np.asarray(np.matmul(rows, vectors[:, :, None])[:, :, 0])


def scaled_sums(parts: Sequence[tuple[FloatArray, FloatArray]], weight: FloatArray) -> FloatArray:
    """Sum ``rows diag(scale) weight`` over parts: rows (N, n, k) or (1, n, k), scales (N, k)."""
    if weight.shape[1] < parts[0][0].shape[1]:  # weights are cheaper to scale
        return np.asarray(sum(rows @ (scale[:, :, None] * weight) for rows, scale in parts))
    return np.asarray(sum(rows * scale[:, None] for rows, scale in parts) @ weight)


def best_multiplier(a: FloatArray, g: FloatArray, h: FloatArray, x: Signal) -> FloatArray:
    """Minimise ``max over the box of (a - m g) . x + m h`` over m >= 0.

    Its derivative ``h - g . x*(m)`` rises wherever an entry of ``a - m g`` changes its sign.
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


class Affine(NamedTuple):
    """Affine enclosures ``x . X + v . V + c +- r`` on boxes; V is None if v does not matter.

    Attributes
    ----------
    x, v : ndarray, shape (N or 1, n, d)
    constant, radius : ndarray, shape (N, n)
    """

    x: FloatArray
    v: FloatArray | None
    constant: FloatArray
    radius: FloatArray

    def copied(self, other: Affine, copies: Copies) -> Affine:
        """Make rows that are multiples of these functions or of those of the previous layer."""
        count = max(len(self.constant), len(other.constant))
        scale = copies.scale
        ours, theirs = ((part.x, part.constant, part.radius) for part in (self, other))
        both = zip(ours, theirs, strict=True)
        x, constant, radius = (
            np.concatenate(
                [np.broadcast_to(part, (count, *part.shape[1:])) for part in pair], axis=1
            )[:, copies.source]
            for pair in both
        )
        v = None
        if self.v is not None and other.v is not None:
            parts = [np.broadcast_to(p, (count, *p.shape[1:])) for p in (self.v, other.v)]
            v = np.concatenate(parts, axis=1)[:, copies.source] * scale[:, None]
        return Affine(x * scale[:, None], v, constant * scale, radius * np.abs(scale))

    def on(self, which: IntArray) -> Affine:
        """Select boxes."""
        parts = (self.x, self.v, self.constant, self.radius)
        x, v, constant, radius = (
            part if part is None or len(part) == 1 else part[which] for part in parts
        )
        assert x is not None
        assert constant is not None
        assert radius is not None
        return Affine(x, v, constant, radius)

    def take(self, which: IntArray | slice) -> Affine:
        """Select functions."""
        v = None if self.v is None else self.v[:, which]
        return Affine(self.x[:, which], v, self.constant[:, which], self.radius[:, which])


def at(affine: Affine, x: FloatArray, v: FloatArray) -> FloatArray:
    """Evaluate affine functions at points (N, d) and directions (N, d), shape (N, n)."""
    found = affine.constant + times(affine.x, x)
    return found if affine.v is None else found + times(affine.v, v)


def centred(low: FloatArray, high: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """Enclose [low, high] in ``middle +- radius``."""
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return middle, np.maximum(radius, 0.0) * (1.0 + unit)


def turned(affine: Affine, inputs: Inputs, moving: bool) -> tuple[FloatArray, FloatArray]:
    """Rewrite functions in e: return coefficients (N, n, D), and values at e = 0.

    e is x, or (x, v) if `moving`, relative to its middle and scaled by its radii to [-1, 1]^D.
    """
    x, v, _ = inputs
    turn, offset = affine.x * x.radius[:, None], affine.constant + times(affine.x, x.middle)
    if affine.v is not None:
        offset = offset + times(affine.v, v.middle)
    if moving:
        count, rows = max(len(offset), len(v.radius)), turn.shape[1]
        more = np.zeros((count, rows, v.radius.shape[1]))
        if affine.v is not None:
            more = more + affine.v * v.radius[:, None]
        turn = np.concatenate([np.broadcast_to(turn, (count, *turn.shape[1:])), more], axis=2)
    return turn, offset
