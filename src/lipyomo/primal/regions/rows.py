"""Activation regions as rows of inequalities, with the rows that cannot matter left out.

A unit whose pre-activation is constant on the region (dead predecessors, cancelling duplicates)
has no kink there.  Where the constant is not zero the pattern must have its sign; where it is
zero either slope gives the same Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, Pattern
from lipyomo.networks.network import Network
from lipyomo.problems.affine.signal import FloatSignal, TrackedSignal, carry, decided


@dataclass(frozen=True)
class RegionRows:
    """The region of a pattern as ``A x <= b``, every row with l1 norm one.

    Attributes
    ----------
    A : ndarray, shape (r, d)
        Columns of inputs that cannot move are zero.
    b : ndarray, shape (r,)
    owners : ndarray of int, shape (r,)
        The unit of each row, numbered through all layers.
    contradiction : bool
        Whether a unit is constant with the wrong sign: the region is empty.
    """

    A: FloatArray
    b: FloatArray
    owners: npt.NDArray[np.intp]
    contradiction: bool


def region_rows(
    network: Network, pattern: Pattern, moving: BoolArray, values: FloatArray
) -> RegionRows:
    """Rows of the region of `pattern`.

    Parameters
    ----------
    network : Network
    pattern : Pattern
    moving : ndarray of bool, shape (d,)
        Inputs that can move.
    values : ndarray, shape (d,)
        Values of the others.
    """
    d = network.input_dim
    start = TrackedSignal.of(FloatSignal.inputs(d, 0, moving, values))
    unit_maps = decided(network.hidden, pattern)
    contradiction, first = False, 0
    blocks: list[FloatArray] = [np.zeros((0, d))]
    sides: list[FloatArray] = [np.zeros(0)]
    owners = [np.zeros(0, dtype=np.intp)]
    for layer, on, z in zip(
        network.hidden, pattern, carry(start, network.hidden, unit_maps), strict=True
    ):
        maps, sizes = np.asarray(z.values.matrix), z.relative * np.asarray(z.sizes.matrix)
        rows, constant = maps[:, :-1], maps[:, -1]
        length = np.abs(rows).sum(axis=1)
        flat = length <= sizes[:, :-1].sum(axis=1)
        wrong = flat & (np.abs(constant) > sizes[:, -1]) & layer.kinked & ((constant > 0) != on)
        contradiction |= bool(wrong.any())
        keep = layer.kinked & ~flat
        scale = np.where(on, -1.0, 1.0)[keep] / length[keep]
        blocks.append(scale[:, None] * rows[keep])
        sides.append(-scale * constant[keep])
        owners.append(first + np.flatnonzero(keep))
        first += layer.units
    found = np.vstack(blocks), np.concatenate(sides), np.concatenate(owners)
    return RegionRows(*found, contradiction)
