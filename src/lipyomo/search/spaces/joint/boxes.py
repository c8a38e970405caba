"""Bundles of boxes: nodes of the search, values that are never written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, middles


@dataclass(frozen=True, eq=False)
class Boxes:
    """Boxes with upper bounds of what is to be maximised on them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Ends of the inputs.
    pairs : ndarray, shape (N, k, q)
        Bounds for each functional and each direction; minus infinity where a box is empty.
    axis : ndarray of int, shape (N,)
        The input that is to be halved.
    """

    low: FloatArray
    high: FloatArray
    pairs: FloatArray
    axis: IntArray

    def __len__(self) -> int:
        return len(self.low)

    @property
    def bounds(self) -> FloatArray:
        """Upper bounds, shape (N,)."""
        return np.asarray(self.pairs.max(axis=(1, 2)))

    @property
    def bound(self) -> float:
        """The largest one."""
        return float(self.pairs.max(initial=-np.inf))

    proved_bound = bound

    @property
    def middle(self) -> FloatArray:
        """The boxes' middles, shape (N, d)."""
        return middles(self.low, self.high)

    @property
    def nbytes(self) -> int:
        """What they take."""
        return sum(int(getattr(self, name).nbytes) for name in NAMES)

    def take(self, which: IntArray | BoolArray | slice) -> Boxes:
        """Some of them."""
        return Boxes(*(getattr(self, name)[which] for name in NAMES))

    def encode(self) -> dict[str, npt.NDArray[Any]]:
        """Their arrays by name."""
        return {name: getattr(self, name) for name in NAMES}

    @classmethod
    def decode(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Boxes:
        """What `encode` gave."""
        return cls(*(arrays[name] for name in NAMES))

    def halves(self) -> tuple[Boxes, BoolArray]:
        """The halves of the boxes that can be halved, lower ones first; and which these are."""
        number = np.arange(len(self))
        middle = self.middle[number, self.axis]
        can = (middle > self.low[number, self.axis]) & (middle < self.high[number, self.axis])
        boxes, middle = self.take(can), middle[can]
        at = np.arange(len(boxes)), boxes.axis
        low, high = boxes.low.copy(), boxes.high.copy()
        low[at], high[at] = middle, middle
        below = Boxes(boxes.low, high, boxes.pairs, boxes.axis)
        return joined([below, Boxes(low, boxes.high, boxes.pairs, boxes.axis)]), can


NAMES = tuple(item.name for item in fields(Boxes))


def joined(parts: Sequence[Boxes]) -> Boxes:
    """All of them as one; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    return Boxes(*(np.concatenate([getattr(part, name) for part in parts]) for name in NAMES))


def bundles(boxes: Boxes, most: int) -> tuple[Boxes, ...]:
    """Bundles of at most so many boxes, those with the largest bounds first."""
    if not len(boxes):
        return ()
    ordered = boxes.take(np.argsort(-boxes.bounds, kind="stable"))
    return tuple(ordered.take(slice(at, at + most)) for at in range(0, len(boxes), most))
