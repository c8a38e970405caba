"""Activation regions as rows of inequalities, with the rows that cannot matter left out.

A unit whose pre-activation is constant on the region (dead predecessors, cancelling duplicates)
has no kink there.  Where the constant is not zero the pattern must have its sign; where it is
zero either slope gives the same Jacobian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.network import BoolArray, FloatArray, Network, Pattern
from lipyomo.numerics.rounding import gamma


@dataclass(frozen=True)
class RegionRows:
    """The region of a pattern as ``A x <= b``, every row with l1 norm one.

    Attributes
    ----------
    A : ndarray, shape (r, d)
        Columns of inputs that cannot move are zero.
    b : ndarray, shape (r,)
    contradiction : bool
        Whether a unit is constant with the wrong sign: the region is empty.
    """

    A: FloatArray
    b: FloatArray
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
    gain: FloatArray = np.eye(d)
    offset: FloatArray = np.zeros(d)
    gain_size, offset_size = gain, offset
    terms, contradiction = 0, False
    blocks: list[FloatArray] = []
    sides: list[FloatArray] = []
    fixed = np.where(moving, 0.0, values)
    for layer, on in zip(network.hidden, pattern, strict=True):
        weight, size = layer.weight, abs(layer.weight)
        gain, offset = np.asarray(weight @ gain), np.asarray(weight @ offset) + layer.bias
        gain_size = np.asarray(size @ gain_size)
        offset_size = np.asarray(size @ offset_size) + np.abs(layer.bias)
        terms += layer.inputs
        constant = offset + gain @ fixed
        constant_size = offset_size + gain_size @ np.abs(fixed)
        rows = np.where(moving, gain, 0.0)
        length = np.abs(rows).sum(axis=1)
        noise = gamma(terms) * np.where(moving, gain_size, 0.0).sum(axis=1)
        flat = length <= noise
        certain = np.abs(constant) > gamma(terms + d) * constant_size
        wrong = flat & certain & layer.kinked & ((constant > 0) != on)
        contradiction |= bool(wrong.any())
        keep = layer.kinked & ~flat
        scale = np.where(on, -1.0, 1.0)[keep] / length[keep]
        blocks.append(scale[:, None] * rows[keep])
        sides.append(-scale * constant[keep])
        slope = layer.slopes(on)
        gain, offset = slope[:, None] * gain, slope * offset
        gain_size = np.abs(slope)[:, None] * gain_size
        offset_size = np.abs(slope) * offset_size
    if not blocks:
        return RegionRows(np.zeros((0, d)), np.zeros(0), False)
    return RegionRows(np.vstack(blocks), np.concatenate(sides), contradiction)
