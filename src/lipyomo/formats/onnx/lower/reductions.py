"""Reductions: averages and sums are affine, maxima trees of ``b + relu(a - b)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import IntArray
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.trace import Trace


def through_increasing(trace: Trace, x: Tensor, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a maximum to `x`, before its units if these are nondecreasing: they commute."""
    before = trace.before_unit(x)
    if before is None:
        return pool(x)
    z, left, right = before
    return trace.unit(pool(z), left, right)


def grouped(call: Call) -> tuple[Tensor, tuple[int, ...]]:
    """Return the tensor with the reduced axes joined to a last one, and the result's shape."""
    x = call.tensor(0)
    rank = len(x.shape)
    if call.node.op_type.startswith("Global"):
        axes: list[int] | None = list(range(2, rank))
    else:
        axes = call.integers(1, "axes", "the list of axes")
    if not axes:
        axes = [] if call.node.integer("noop_with_empty_axes", 0) else list(range(rank))
    reduced = {axis % rank for axis in axes}
    shape = tuple(1 if axis in reduced else x.shape[axis] for axis in range(rank))
    if not call.node.integer("keepdims", 1):
        shape = tuple(x.shape[axis] for axis in range(rank) if axis not in reduced)
    return rows_along(x, axes)[0], shape


def rows_along(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, IntArray]:
    """Return the tensor as rows along some axes, and the index that moves their entries back."""
    rank = len(x.shape)
    last = sorted({axis % rank for axis in axes})
    kept = [axis for axis in range(rank) if axis not in last]
    index = np.transpose(x.index, kept + last)
    count = math.prod(x.shape[axis] for axis in kept)
    return x.take(index.reshape(count, -1)), np.argsort(index, axis=None).reshape(x.shape)


def columns(x: Tensor) -> list[Tensor]:
    """Return the columns of rows."""
    return [x.take(column) for column in x.index.T]


def sum_of(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the sums of rows, in the given shape."""
    rows, terms = x.shape
    operator = sp.kron(sp.eye_array(rows), np.ones((1, terms)), format="csr")
    return x.apply(sp.csr_array(operator), shape)


@lowers("ReduceSum", "ReduceMean", "GlobalAveragePool")
def reduce_sum(call: Call) -> Value:
    """Return the sum or mean; over all spatial axes for global pooling."""
    x, shape = grouped(call)
    total = sum_of(x, shape)
    return total if call.node.op_type == "ReduceSum" else total.scale(1.0 / x.shape[1])


@lowers("ReduceL1")
def reduce_l1(call: Call) -> Value:
    """Return the sum of absolute values."""
    x, shape = grouped(call)
    return sum_of(call.trace.unit(x, -1.0), shape)


@lowers("ReduceMax", "ReduceMin", "GlobalMaxPool")
def reduce_max(call: Call) -> Value:
    """Maximum or minimum, as a balanced tree; over all spatial axes for global pooling."""
    x, shape = grouped(call)
    sign = -1.0 if call.node.op_type == "ReduceMin" else 1.0

    def pool(tensor: Tensor) -> Tensor:
        return tree(columns(tensor), call.trace.maximum)

    found = through_increasing(call.trace, x.scale(sign), pool).scale(sign)
    return found.reshaped(shape)
