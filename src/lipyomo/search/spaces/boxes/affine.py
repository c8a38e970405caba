"""Affine functions of (x, v) on boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.search.spaces.boxes.inputs import times
from lipyomo.search.spaces.boxes.stage import Copies


@dataclass(frozen=True, eq=False)
class Affine:
    """Functions ``x . X + v . V + c +- r`` of (x, v) in boxes; V is None where v does not matter.

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
        """These functions, and those of the layer before, as rows that are multiples of them."""
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
        """The functions on some of the boxes."""
        parts = (self.x, self.v, self.constant, self.radius)
        x, v, constant, radius = (
            part if part is None or len(part) == 1 else part[which] for part in parts
        )
        assert x is not None
        assert constant is not None
        assert radius is not None
        return Affine(x, v, constant, radius)

    def take(self, which: IntArray | slice) -> Affine:
        """Some of the functions."""
        v = None if self.v is None else self.v[:, which]
        return Affine(self.x[:, which], v, self.constant[:, which], self.radius[:, which])


def at(affine: Affine, x: FloatArray, v: FloatArray) -> FloatArray:
    """Affine functions at points (N, d) and directions (N, d), shape (N, n)."""
    found = affine.constant + times(affine.x, x)
    return found if affine.v is None else found + times(affine.v, v)


def centred(low: FloatArray, high: FloatArray, unit: float) -> tuple[FloatArray, FloatArray]:
    """``middle +- radius`` around [low, high]."""
    middle = 0.5 * (low + high)
    radius = np.maximum(high - middle, middle - low)
    return middle, np.maximum(radius, 0.0) * (1.0 + unit)
