"""Entrywise products of tensors, simplified where a factor is constant or both are equal."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.networks.activations import Power
from lipyomo.networks.building.affine import Tensor, stack, widen
from lipyomo.networks.building.trace import Trace

Array: TypeAlias = npt.NDArray[Any]


def entrywise_product(trace: Trace, a: Tensor | Array, b: Tensor | Array) -> Tensor:
    """Return ``a * b``, entry by entry, with broadcasting.

    Entries with a constant factor stay affine, equal factors become one square.

    Parameters
    ----------
    trace : Trace
    a, b : Tensor or ndarray
        Arrays are constants.
    """
    a, b = (x if isinstance(x, Tensor) else Tensor.constant(x) for x in (a, b))
    shape = np.broadcast_shapes(a.shape, b.shape)
    a, b = (x.broadcast(shape).reshaped((int(np.prod(shape)),)) for x in (a, b))
    fixed = [np.diff(x.matrix.indptr) == 0 for x in (a, b)]
    columns = max(a.matrix.shape[1], b.matrix.shape[1])
    off = abs(sp.csr_array(widen(a.matrix, columns) - widen(b.matrix, columns))).sum(axis=1)
    same = (np.asarray(off).reshape(-1) == 0.0) & (a.offset == b.offset)
    kinds = np.select([fixed[0], fixed[1], same], [0, 1, 2], 3)
    places = [np.flatnonzero(kinds == kind) for kind in range(4)]
    (_, first), (second, _), (equal, _), (left, right) = (
        (a.take(place), b.take(place)) for place in places
    )
    parts = [first.scale(a.offset[places[0]]), second.scale(b.offset[places[1]]), equal, left]
    if equal.size:
        parts[2] = trace.smooth(equal, Power(2.0))
    if left.size:
        parts[3] = trace.product(left, right)
    order = np.empty(a.size, dtype=np.intp)
    order[np.concatenate(places)] = np.arange(a.size)
    return stack([part for part in parts if part.size]).take(order.reshape(shape))
