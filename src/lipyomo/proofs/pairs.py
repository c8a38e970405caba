"""The tree of boxes in a two-slope network's proof, with all pairs of a box bounded together.

It is made with the checker's own bound (`lipyomo_check.pairs`); for each box the file only says how
it is split.  Boxes are bisected along the input that accounts for the ranges of most open units, as
in the search.  If a single kink is left, or boxes have become small, they are split at the kink of
the unit that adds most to the bounds of the remaining pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.proofs.params import PARAMS
from lipyomo_check.pairs.ranges import OPEN, Units
from lipyomo_check.pairs.tree import Asked, Bounded, Waiting
from lipyomo_check.smooth.steps import Codes, write_codes


class UnfinishedError(Exception):
    """The tree was not completed; the message says why."""


def pairs_written(asked: Asked, write: Callable[[bytes], object]) -> Iterator[int]:
    """Write the tree of boxes, and yield the numbers of finished boxes.

    Bounds are required to be slightly lower than the checker needs, since sums may be rounded in
    another order on another machine.

    Raises
    ------
    UnfinishedError
        If boxes become too small for float64 before they are closed.
    """
    asked = replace(asked, upper=asked.upper * (1.0 - PARAMS.aim / 8.0))

    def decide(_: Waiting, bounded: Bounded) -> Codes:
        codes = _codes(asked, bounded)
        write(write_codes(codes, asked.axes))
        return codes

    return asked.walk(decide)


def _codes(asked: Asked, bounded: Bounded) -> Codes:
    """Return the codes of boxes: those without pairs end, the others are split."""
    boxes = bounded.boxes
    codes = np.zeros(boxes.size, dtype=np.uint16)
    split = np.flatnonzero(boxes.live.any(axis=(1, 2)))
    if not split.size:
        return codes
    low, high, whole = boxes.low[split], boxes.high[split], asked.first
    radius = (high - low) / 2.0
    units = [own.take(split) for own in bounded.units]
    share = radius / np.maximum(whole.high - whole.low, 1e-300)
    can = (low < low + radius) & (low + radius < high) & (share > PARAMS.least_width)
    counts = np.where(can, _counts(asked, units, radius) + 1e-12 * share, -1.0)
    axis = counts.argmax(axis=1)
    gaps = _gaps(asked, units, boxes.live[split])
    number = (gaps[:, _firsts(asked)] > 0.0).sum(axis=1)
    kinks = (number == 1) | (number > 1) & (share.max(axis=1) < PARAMS.small)
    if ((counts.max(axis=1) < 0.0) & (number == 0)).any():
        raise UnfinishedError("boxes are as small as they may be before they are closed")
    if kinks.any():
        axis[kinks] = low.shape[1] + gaps[kinks].argmax(axis=1)
    codes[split] = axis + 1
    return codes


def _firsts(asked: Asked) -> list[int]:
    """Return the two-slope units, except those that are split together with an earlier one."""
    return [unit for unit, twins in asked.twins.items() if all(unit < t.unit for t in twins)]


def _counts(asked: Asked, units: Sequence[Units], radius: FloatArray) -> FloatArray:
    """Count open units by input, (N, d); each is divided by the inputs' shares of its range."""
    rows: FloatArray = np.eye(radius.shape[1])[None]
    counts = np.zeros_like(radius)
    for kinks, own in zip(asked.hidden, units, strict=True):
        rows = np.asarray(kinks.level.weight @ rows)
        open_ = own.sides == OPEN
        share = np.where(open_, 1.0 / np.where(open_, own.high - own.low, 1.0), 0.0)
        counts += np.matmul(share[:, None], np.abs(rows))[:, 0] * radius
        rows = own.middle[:, :, None] * rows
    return counts


def _gaps(asked: Asked, units: Sequence[Units], live: BoolArray) -> FloatArray:
    """Estimate what open units add to the bounds of pairs, (N, K); -1 for others."""
    tangents: FloatArray = asked.directions.T[None]
    sizes = []
    for kinks, own in zip(asked.hidden, units, strict=True):
        tangents = np.asarray(kinks.level.tangents @ tangents)
        sizes.append(np.abs(tangents))
        tangents = own.middle[:, :, None] * tangents
    rows: FloatArray = (asked.functionals @ asked.head)[None]
    pairs, gaps = live.astype(np.float64), []
    for kinks, own, size in zip(asked.hidden[::-1], units[::-1], sizes[::-1], strict=True):
        both = pairs @ np.swapaxes(size, 1, 2)
        gap = own.reach * (both * np.abs(rows)).sum(axis=1)
        gaps.append(np.where(own.sides == OPEN, gap, -1.0))
        rows = (rows * own.middle[:, None]) @ kinks.level.tangents
    return np.hstack([np.zeros((len(live), 0)), *gaps[::-1]])
