"""Sums, means, maxima and minima over axes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.onnx.affine import Affine
from lipyomo.onnx.lower.pool import through_units
from lipyomo.onnx.lower.registry import Call, Value, lowers
from lipyomo.onnx.lower.units import tree


def _grouped(call: Call) -> tuple[Affine, tuple[int, ...]] | None:
    """The tensor with the reduced axes joined into one last axis, and the shape of the result.

    None if there is nothing to reduce.
    """
    x = call.tensor(0)
    rank = len(x.shape)
    if call.node.op_type.startswith("Global"):
        axes: list[int] | None = list(range(2, rank))
    else:
        axes = call.integers(1, "axes", "the list of axes")
    if not axes and call.node.integer("noop_with_empty_axes", 0):
        return None
    reduced = sorted(axis % rank for axis in axes) if axes else list(range(rank))
    kept = [axis for axis in range(rank) if axis not in reduced]
    if call.node.integer("keepdims", 1):
        shape = tuple(1 if axis in reduced else x.shape[axis] for axis in range(rank))
    else:
        shape = tuple(x.shape[axis] for axis in kept)
    index = np.transpose(x.index, kept + reduced)
    return x.take(index.reshape(int(np.prod(shape)), -1)), shape


def _sum(x: Affine, shape: tuple[int, ...]) -> Affine:
    rows, terms = x.shape
    operator = sp.kron(sp.eye_array(rows), np.ones((1, terms)), format="csr")
    return x.apply(sp.csr_array(operator), shape)


@lowers("ReduceSum", "ReduceMean", "GlobalAveragePool")
def reduce_sum(call: Call) -> Value:
    """Sum or mean; over all spatial axes for pools."""
    grouped = _grouped(call)
    if grouped is None:
        return call.value(0)
    x, shape = grouped
    total = _sum(x, shape)
    return total if call.node.op_type == "ReduceSum" else total.scale(1.0 / x.shape[1])


@lowers("ReduceL1")
def reduce_l1(call: Call) -> Value:
    """Sum of absolute values."""
    grouped = _grouped(call)
    if grouped is None:
        return call.trace.unit(call.tensor(0), -1.0)
    x, shape = grouped
    return _sum(call.trace.unit(x, -1.0), shape)


@lowers("ReduceMax", "ReduceMin", "GlobalMaxPool")
def reduce_max(call: Call) -> Value:
    """Maximum or minimum, as a balanced tree; over all spatial axes for pools."""
    grouped = _grouped(call)
    if grouped is None:
        return call.value(0)
    x, shape = grouped
    sign = -1.0 if call.node.op_type == "ReduceMin" else 1.0

    def pool(tensor: Affine) -> Affine:
        index = tensor.index
        return tree([tensor.take(place) for place in index.T], call.trace.maximum)

    found = through_units(call.trace, x.scale(sign), pool).scale(sign)
    return found.reshaped(shape)
