"""The units of a layer by their activations: one call for all units of a kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.networks.activations import Activation, TwoSlope
from lipyomo.networks.network import Layer

Kind = tuple[Activation, "slice | IntArray"]
"""An activation, and the units of a layer that apply it."""


def kinds_of(layer: Layer) -> tuple[Kind, ...]:
    """The activations of a layer's units."""
    found: list[Kind] = [(curve.activation, curve.units) for curve in layer.curves]
    rest = np.flatnonzero(~layer.curved)
    lefts, rights = layer.left[rest], layer.right[rest]
    for left, right in sorted(set(zip(lefts.tolist(), rights.tolist(), strict=True))):
        found.append((TwoSlope(left, right), rest[(lefts == left) & (rights == right)]))
    if len(found) == 1:
        return ((found[0][0], slice(None)),)
    return tuple(found)


def each_kind(
    kinds: Sequence[Kind], name: str, *arrays: FloatArray
) -> tuple[FloatArray, ...] | FloatArray:
    """A method of every unit's activation, applied to columns of arrays (..., n)."""
    if len(kinds) == 1:
        found: tuple[FloatArray, ...] | FloatArray = getattr(kinds[0][0], name)(*arrays)
        return found
    whole: list[FloatArray] = []
    single = True
    for activation, units in kinds:
        part = getattr(activation, name)(*(array[..., units] for array in arrays))
        single = not isinstance(part, tuple)
        for k, piece in enumerate((part,) if single else part):
            if k == len(whole):
                whole.append(np.empty(np.broadcast_shapes(*(array.shape for array in arrays))))
            whole[k][..., units] = piece
    return whole[0] if single else tuple(whole)
