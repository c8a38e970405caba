"""Which units of a layer are the two squares of a product."""

from __future__ import annotations

from collections.abc import Sequence

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.activations import Half
from lipyomo.networks.layer import Layer


def square_pairs(layer: Layer, after: FloatArray) -> Sequence[tuple[int, int]]:
    """Units (p, q) that are the two squares of a product.

    Parameters
    ----------
    layer : Layer
    after : ndarray, shape (m, n)
        The next weight, in which their columns are opposite.
    """
    sides: list[list[int]] = [[], []]
    for curve in layer.curves:
        kind = curve.activation.true
        if isinstance(kind, Half):
            sides[kind.difference] += curve.units.tolist()
    sums, differences = (sorted(side) for side in sides)
    partners: dict[bytes, list[int]] = {}
    for q in differences:
        partners.setdefault((0.0 - after[:, q]).tobytes(), []).append(q)
    rank = {q: k for k, q in enumerate(differences)}
    found = []
    for k, p in enumerate(sums):
        own = partners.get((0.0 + after[:, p]).tobytes())
        if own:  # mostly there are as many, in the same order
            q = min(own, key=lambda unit: abs(rank[unit] - k))
            own.remove(q)
            found.append((p, q))
    return found
