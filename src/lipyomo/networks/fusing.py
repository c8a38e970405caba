"""Layers put together where one affine map follows another."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import scaled_rows
from lipyomo.base.numerics.exactness import entries_are_exact, product_is_exact, sum_is_exact
from lipyomo.networks.layer import Layer


def _normalised(layer: Layer, rounding: bool) -> list[Layer]:
    """`layer` with identities for units that are constant or have no kink.

    Their slopes move into their weights.  Where that would round, they become a layer of their own.
    Smooth units stay as they are: the value of a constant one is no float64 number.
    """
    slopes = np.where(layer.bias > 0, layer.right, layer.left)
    slopes = np.where(layer.curved, 1.0, slopes)  # which may have no bound
    kinked = layer.kinked & ~((layer.row_sums == 0) & entries_are_exact(slopes, layer.bias))
    bent = kinked | layer.curved
    scale = np.where(bent, 1.0, slopes)
    if np.all(scale == 1.0) and np.array_equal(kinked, layer.kinked):
        return [layer]
    left, right = (np.where(bent, slope, 1.0) for slope in (layer.left, layer.right))
    factor = sp.csr_array(sp.diags_array(scale))
    both = sp.hstack([sp.csr_array(layer.weight), sp.csr_array(layer.bias[:, None])])
    if rounding or product_is_exact(factor, both):
        weight = scaled_rows(layer.weight, scale)
        return [Layer(weight, scale * layer.bias, left, right, layer.curves)]
    units = Layer(layer.weight, layer.bias, left, right, layer.curves)
    return [units, Layer(factor, np.zeros(layer.units))]


def composed(layer: Layer, before: Layer, rounding: bool) -> Layer | None:
    """`layer` after the affine layer `before` as one; None if that would round."""
    shift = np.asarray(layer.weight @ before.bias)
    if not rounding and not (
        product_is_exact(layer.weight, before.weight)
        and product_is_exact(layer.weight, before.bias[:, None])
        and sum_is_exact(shift, layer.bias)
    ):
        return None
    return layer.with_map(layer.weight @ before.weight, shift + layer.bias)


def fused_layers(
    layers: Sequence[Layer], rounding: bool = False
) -> tuple[list[Layer], dict[int, int]]:
    """Layers as `Network.fused` puts them together, and where those with kinks are among them.

    A layer that keeps a kink keeps all its units, in their order.
    """
    chain: list[Layer] = []
    places: dict[int, int] = {}
    for i, layer in enumerate(layers):
        for part in _normalised(layer, rounding):
            joined = None
            if chain and chain[-1].is_affine:
                joined = composed(part, chain[-1], rounding)
            if joined is None:
                chain.append(part)
            else:
                chain[-1] = joined
            if not part.is_affine:
                places[i] = len(chain) - 1
    return chain, places
