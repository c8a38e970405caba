"""Bundles of boxes: nodes of a search as arrays, values that are never written to."""

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
    """Boxes of inputs; a dataclass of arrays whose first axes count them.

    Attributes
    ----------
    low, high : ndarray, shape (N, d)
        Ends of the inputs.
    bounds : ndarray, shape (N,)
        Proved upper bounds; minus infinity for what is empty.
    """

    low: FloatArray
    high: FloatArray

    if TYPE_CHECKING:

        def __init__(self, *arrays: Any) -> None: ...

        @property
        def bounds(self) -> FloatArray:
            """A field of some, and made of others in some."""

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
        """The boxes' middles, shape (N, d)."""
        return middles(self.low, self.high)

    @property
    def nbytes(self) -> int:
        """About what they take, with the objects that they are."""
        return 4096 + sum(int(array.nbytes) for array in self.encode().values())

    warm_bytes = 0

    def cooled(self) -> Self:
        """Nothing of them can be found again."""
        return self

    def take(self, which: IntArray | BoolArray | slice) -> Self:
        """Some of them."""
        return type(self)(*(array[which] for array in self.encode().values()))

    def encode(self) -> dict[str, npt.NDArray[Any]]:
        """Their arrays by name."""
        return {name: getattr(self, name) for name in self.names()}

    @classmethod
    def decode(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """What `encode` gave."""
        return cls(*(arrays[name] for name in cls.names()))


B = TypeVar("B", bound=Bundle)

_BOXES = "boxes."
_SIZES = "boxes.sizes"


def joined(parts: Sequence[B]) -> B:
    """All of them as one; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part.encode().values() for part in parts), strict=True)
    return type(parts[0])(*(np.concatenate(column) for column in columns))


def halves(boxes: B, axis: IntArray) -> tuple[B, BoolArray]:
    """The halves of the boxes that can be halved along their axes (N,), lower ones first.

    And which boxes these are.
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
    """Which boxes (N,) have no edge of this share of the domain's: halving hardly helps them."""
    shares = (boxes.high - boxes.low) / (domain.upper - domain.lower)
    return np.asarray(shares.max(axis=1) < least)


def bundles(boxes: B, most: int) -> tuple[B, ...]:
    """Bundles of at most so many boxes, those with the largest bounds first."""
    if not len(boxes):
        return ()
    order = np.argsort(-boxes.bounds, kind="stable")
    return tuple(boxes.take(order[at : at + most]) for at in range(0, len(boxes), most))


def with_proved(boxes: Sequence[Bundle], cutoff: float) -> Outcome[Any]:
    """Bundles of boxes without those at or below a cutoff: all bounds are proved."""
    closed, left = -math.inf, []
    for some in boxes:
        done = some.bounds <= cutoff
        closed = max(closed, float(some.bounds[done].max(initial=-math.inf)))
        if not done.all():
            left.append(some.take(~done) if done.any() else some)
    return Outcome(returned=tuple(left), closed=closed)


def encoded(parts: Sequence[B], like: B) -> dict[str, npt.NDArray[Any]]:
    """Bundles of boxes as plain arrays, for a checkpoint; where there are none, of others' kind."""
    whole = joined(parts) if parts else like.take(slice(0, 0))
    arrays = {_BOXES + name: array for name, array in whole.encode().items()}
    return arrays | {_SIZES: np.array([len(part) for part in parts], dtype=np.int64)}


def decoded(kind: type[B], arrays: Mapping[str, npt.NDArray[Any]]) -> tuple[B, ...]:
    """What `encoded` wrote; no bundles where there is nothing of it."""
    if _SIZES not in arrays:
        return ()
    whole = kind.decode({name: arrays[_BOXES + name] for name in kind.names()})
    ends = np.cumsum(arrays[_SIZES]).tolist()
    return tuple(whole.take(slice(a, b)) for a, b in pairwise([0, *ends]))
