"""Networks that end with rows of quotients by roots: what their last layers are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.normalised import Roots
from lipyomo.search.spaces.boxes.stage import Stage


class Tail(NamedTuple):
    """The last layers of a network: squares, inverse roots, quotients, and units of sums of these.

    Attributes
    ----------
    start : int
        The stage with the squares.
    roots : Roots
    weight : ndarray, shape (n, k)
        Rows of the last layer, of all s over their root.
    group : ndarray of int, shape (n,)
        The root of each row.
    """

    start: int
    roots: Roots
    weight: FloatArray
    group: IntArray


def tail_of(stages: tuple[Stage, ...]) -> Tail | None:
    """The tail of a network, if it has one, and each row of the last layer is by one root."""
    if len(stages) < 4:
        return None
    roots, products, last = stages[-3].roots, stages[-2].products, stages[-1]
    quotients = stages[-2].quotients
    if roots is None or products is None or quotients is None or last.products is not None:
        return None
    kinks = any(stage.broken.size for stage in stages)
    if products.units or quotients.products.size < products.left.size or kinks:
        return None
    weight = np.zeros((last.bias.size, roots.squares.size))
    np.add.at(weight.T, quotients.squares, (last.weight[:, quotients.products] * quotients.scale).T)
    seen = np.abs(weight) @ roots.whole > 0.0
    if (seen.sum(axis=1) > 1).any():
        return None
    return Tail(len(stages) - 4, roots, weight, seen.argmax(axis=1))
