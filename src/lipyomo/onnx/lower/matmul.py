"""Dense affine maps: MatMul and Gemm."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.network import FloatArray
from lipyomo.onnx.affine import Affine
from lipyomo.onnx.budget import NUMBER, budget, entries
from lipyomo.onnx.lower.arithmetic import plus
from lipyomo.onnx.lower.registry import Call, Value, lowers


def times_constant(x: Affine, weight: FloatArray) -> Affine:
    """``x @ weight`` with NumPy's rules for vectors and batches.

    Entry (..., i, j) of the product reads the entries (..., i, :) of `x`.
    """
    index = x.index if x.index.ndim > 1 else x.index[None, :]
    w = weight if weight.ndim > 1 else weight[:, None]
    if index.shape[-1] != w.shape[-2]:
        raise ValueError(f"shapes {x.shape} and {weight.shape} do not multiply")
    shape = (*np.broadcast_shapes(index.shape[:-2], w.shape[:-2]), index.shape[-2], w.shape[-1])
    result = shape
    if weight.ndim == 1:
        result = result[:-1]
    if x.index.ndim == 1:
        result = (*result[:-2], *result[-1:]) if weight.ndim > 1 else result[:-1]
    inner = w.shape[-2]
    if index.size == inner and w.ndim == 2:
        return x.apply(np.ascontiguousarray(w.T), result)
    full = (*shape, inner)
    budget().charge(4 * NUMBER * entries(full), f"a product of {entries(full):,.0f} terms")
    reads = np.broadcast_to(index[..., :, None, :], full).reshape(-1)
    factors = np.broadcast_to(np.swapaxes(w, -1, -2)[..., None, :, :], full).reshape(-1)
    rows = int(np.prod(shape))
    indptr = np.arange(rows + 1) * inner
    operator = sp.csr_array((factors, reads, indptr), shape=(rows, x.size))
    operator.sum_duplicates()
    return x.apply(operator, result)


def _swapped(x: Affine) -> Affine:
    """The tensor with its last two axes exchanged (vectors as they are)."""
    return x.take(np.swapaxes(x.index, -1, -2)) if len(x.shape) > 1 else x


def constant_times(weight: FloatArray, x: Affine) -> Affine:
    """``weight @ x``, as the transpose of ``x^T @ weight^T``."""
    transposed = np.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight
    product = times_constant(_swapped(x), transposed)
    return _swapped(product) if weight.ndim > 1 and len(x.shape) > 1 else product


def multiply(call: Call, a: Value, b: Value) -> Affine:
    """``a @ b`` where one of them is constant."""
    call.refuse_product(a, b)
    if isinstance(a, Affine):
        return times_constant(a, np.asarray(b, dtype=np.float64))
    tensor = b if isinstance(b, Affine) else Affine.constant(b)
    return constant_times(np.asarray(a, dtype=np.float64), tensor)


@lowers("MatMul")
def matmul(call: Call) -> Value:
    """Matrix product; the constant may stand on either side."""
    return multiply(call, call.value(0), call.value(1))


def _transposed(value: Value) -> Value:
    return _swapped(value) if isinstance(value, Affine) else value.T


def _scaled(value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    if isinstance(value, Affine):
        return value.scale(factor)
    return np.asarray(value, dtype=np.float64) * factor


@lowers("Gemm")
def gemm(call: Call) -> Value:
    """``alpha * A' B' + beta * C``."""
    a, b, c = call.value(0), call.value(1), call.optional(2)
    if call.node.integer("transA", 0):
        a = _transposed(a)
    if call.node.integer("transB", 0):
        b = _transposed(b)
    product = _scaled(multiply(call, a, b), call.node.number("alpha", 1.0))
    if c is None:
        return product
    return plus(product, _scaled(c, call.node.number("beta", 1.0)))
