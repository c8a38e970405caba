"""Bundles of boxes: the nodes of a search over boxes, stored as immutable arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray, middles
from lipyomo.problems.domains import Domain
from lipyomo.search.engine.protocol import Outcome


class Bundle:
    """N input boxes; subclasses are dataclasses of arrays whose first axis has length N.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Lower and upper corners.
    bounds : ndarray, shape (N,)
        Proved upper bounds; minus infinity for empty boxes.
    """

    low: FloatArray
    high: FloatArray

    if TYPE_CHECKING:

        def __init__(self, *arrays: Any) -> None: ...

        @property
        def bounds(self) -> FloatArray:
            """A field of some subclasses, computed from other fields in others."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the arrays."""
        return tuple(item.name for item in fields(cast("Any", cls)))

    def __len__(self) -> int:
        return len(self.low)

    @property
    def bound(self) -> float:
        """The largest bound."""
        return float(self.bounds.max(initial=-np.inf))

    proved_bound = bound

    @property
    def middle(self) -> FloatArray:
        """Midpoints of the boxes, shape (N, d)."""
        return middles(self.low, self.high)

    @property
    def nbytes(self) -> int:
        """Estimated memory, with that of the Python objects."""
        return 4096 + sum(int(array.nbytes) for array in self.encode().values())

    warm_bytes = 0

    def cooled(self) -> Self:
        """Return the bundle itself, as it has no data that can be recomputed."""
        return self

    def take(self, which: IntArray | BoolArray | slice) -> Self:
        """Select some of the boxes."""
        return type(self)(*(array[which] for array in self.encode().values()))

    def encode(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays by name."""
        return {name: getattr(self, name) for name in self.names()}

    @classmethod
    def decode(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Restore what `encode` returned."""
        return cls(*(arrays[name] for name in cls.names()))


B = TypeVar("B", bound=Bundle)

_BOXES = "boxes."
_SIZES = "boxes.sizes"


def joined(parts: Sequence[B]) -> B:
    """Concatenate at least one bundle."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.encode().values() for part in parts), strict=True)
    return type(parts[0])(*(np.concatenate(column) for column in columns))


def halves(boxes: B, axis: IntArray) -> tuple[B, BoolArray]:
    """Bisect each box along its axis, shape (N,), where floating point allows it.

    Return the halves, all lower ones first, and which boxes were bisected.
    """
    number = np.arange(len(boxes))
    middle = boxes.middle[number, axis]
    can = (middle > boxes.low[number, axis]) & (middle < boxes.high[number, axis])
    some, middle = boxes.take(can), middle[can]
    at = np.arange(len(some)), axis[can]
    low, high = some.low.copy(), some.high.copy()
    low[at], high[at] = middle, middle
    arrays = some.encode()
    below, above = {**arrays, "high": high}, {**arrays, "low": low}
    return joined([type(some).decode(below), type(some).decode(above)]), can


def thin_boxes(boxes: Bundle, domain: Domain, least: float) -> BoolArray:
    """Return which boxes (N,) have all edges below this share of the domain's.

    Bisecting them hardly helps.
    """
    shares = (boxes.high - boxes.low) / (domain.upper - domain.lower)
    return np.asarray(shares.max(axis=1) < least)


def bundles(boxes: B, most: int) -> tuple[B, ...]:
    """Split boxes into bundles of at most `most`, those with the largest bounds first."""
    if not len(boxes):
        return ()
    order = np.argsort(-boxes.bounds, kind="stable")
    return tuple(boxes.take(order[at : at + most]) for at in range(0, len(boxes), most))


def with_proved(boxes: Sequence[Bundle], cutoff: float) -> Outcome[Any]:
    """Drop the boxes at or below a cutoff, whose bounds are proved, from some bundles."""
    closed, left = -math.inf, []
    for some in boxes:
        done = some.bounds <= cutoff
        closed = max(closed, float(some.bounds[done].max(initial=-math.inf)))
        if not done.all():
            left.append(some.take(~done) if done.any() else some)
    return Outcome(returned=tuple(left), closed=closed)


def encoded(parts: Sequence[B], like: B) -> dict[str, npt.NDArray[Any]]:
    """Encode bundles as plain arrays, for a checkpoint; `like` has the type if there are none."""
    whole = joined(parts) if parts else like.take(slice(0, 0))
    arrays = {_BOXES + name: array for name, array in whole.encode().items()}
    return arrays | {_SIZES: np.array([len(part) for part in parts], dtype=np.int64)}


def decoded(kind: type[B], arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[B, ...]:
    """Restore the bundles that `encoded` returned; () if the arrays have none."""
    if _SIZES not in arrays:
        return ()
    whole = kind.decode({name: arrays[_BOXES + name] for name in kind.names()})
    ends = np.cumsum(arrays[_SIZES]).tolist()
    return tuple(whole.take(slice(a, b)) for a, b in pairwise([0, *ends]))
