"""Pooling and reductions: averages and sums are affine, maxima trees of ``b + relu(a - b)``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import IntArray
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.formats.onnx.lower.windows import Window, joint_positions, windows
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.trace import Trace


def _windows(call: Call, shape: tuple[int, ...]) -> list[Window]:
    kernel = call.node.integers("kernel_shape")
    if kernel is None or len(kernel) != len(shape) - 2:
        raise ValueError(f"a kernel of shape {kernel} for {len(shape) - 2} spatial axes")
    return windows(call.node, shape[2:], tuple(kernel))


@lowers("AveragePool")
def average_pool(call: Call) -> Value:
    """Mean over windows, including padding if `count_include_pad` is set."""
    x = call.tensor(0)
    found = _windows(call, x.shape)
    reads = joint_positions(found)
    if call.node.integer("count_include_pad", 0):
        count = np.ones(1)
        for window in found:
            count = np.outer(count, window.padded).reshape(-1)
    else:
        count = (reads >= 0).sum(axis=1)
    images = x.shape[0] * x.shape[1]
    rows, places = np.nonzero(reads >= 0)
    one = sp.csr_array(
        (1.0 / count[rows], (rows, reads[rows, places])),
        shape=(reads.shape[0], int(np.prod(x.shape[2:]))),
    )
    operator = sp.csr_array(sp.kron(sp.eye_array(images), one, format="csr"))
    return x.apply(operator, (*x.shape[:2], *(window.count for window in found)))


def _along(trace: Trace, x: Tensor, axis: int, positions: IntArray) -> Tensor:
    """Return the maximum over windows along one axis; `positions` has shape (windows, places).

    Padding is replaced by another entry of the same window, since ``max(a, a)`` needs no unit.
    """
    spare = np.max(positions, axis=1, keepdims=True)
    inside = np.where(positions < 0, spare, positions)
    index = x.index
    pieces = [x.take(np.take(index, place, axis=axis)) for place in inside.T]
    return tree(pieces, trace.maximum)


def _through_units(trace: Trace, x: Tensor, pool: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a maximum to `x`, before its units if these are nondecreasing: they commute."""
    before = trace.before_unit(x)
    if before is None:
        return pool(x)
    z, left, right = before
    return trace.unit(pool(z), left, right)


@lowers("MaxPool")
def max_pool(call: Call) -> list[Value]:
    """Maximum over windows, axis by axis, so that overlapping windows share comparisons."""
    x = call.tensor(0)
    found = list(enumerate(_windows(call, x.shape), start=2))

    def pool(tensor: Tensor) -> Tensor:
        for axis, window in reversed(found):
            tensor = _along(call.trace, tensor, axis, window.positions)
        return tensor

    return [_through_units(call.trace, x, pool)]


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
    reduced = sorted(axis % rank for axis in axes)
    kept = [axis for axis in range(rank) if axis not in reduced]
    if call.node.integer("keepdims", 1):
        shape = tuple(1 if axis in reduced else x.shape[axis] for axis in range(rank))
    else:
        shape = tuple(x.shape[axis] for axis in kept)
    index = np.transpose(x.index, kept + reduced)
    return x.take(index.reshape(int(np.prod(shape)), -1)), shape


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
        index = tensor.index
        return tree([tensor.take(place) for place in index.T], call.trace.maximum)

    found = _through_units(call.trace, x.scale(sign), pool).scale(sign)
    return found.reshaped(shape)
