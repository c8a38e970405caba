"""Operators that multiply or divide signals, and functions with unbounded slopes.

A product is a difference of squares (`lipyomo.networks.building.trace.Trace.product`), a quotient a
product with a reciprocal.  Squares, reciprocals, roots, exponentials and logarithms are units that
a problem confines to their range over its domain (`lipyomo.problems.reductions.confine`).

These functions are used only if the formula is not recognised as an activation of one signal, such
as ``x * Sigmoid(x)`` (`lipyomo.formats.onnx.gates`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx.lower.affine_maps import constant_times, plus, times_constant
from lipyomo.formats.onnx.lower.reductions import grouped, sum_of
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.networks.activations import Activation, Exp, Log, Power
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.multiply import entrywise_product
from lipyomo.networks.building.trace import Trace

SQUARE, ROOT, INVERSE, INVERSE_ROOT = Power(2.0), Power(0.5), Power(-1.0), Power(-0.5)


def power(trace: Trace, x: Tensor, exponent: float) -> Tensor:
    """Return ``x**exponent``, as a single power if x is a square root."""
    before = trace.before_smooth(x)
    if before is not None:
        z, kind = before
        whole = isinstance(kind, Power) and exponent == int(exponent) and kind.exponent == 0.5
        if isinstance(kind, Power) and whole and kind.exponent * exponent != 1.0:
            return trace.smooth(z, Power(kind.exponent * exponent))
    return x if exponent == 1.0 else trace.smooth(x, Power(exponent))


@multiplies("Mul")
def mul(call: Call) -> Value:
    """``a * b``."""
    return entrywise_product(call.trace, call.value(0), call.value(1))


@multiplies("Div")
def div(call: Call) -> Value:
    """``a / b``."""
    return entrywise_product(call.trace, call.value(0), power(call.trace, call.tensor(1), -1.0))


@multiplies("Pow")
def pow_(call: Call) -> Value:
    """``x**c`` for one constant c."""
    exponents = np.unique(call.real(1, "the exponent"))
    if exponents.size != 1:
        raise call.node.refuse("the exponents differ", call.remedy)
    exponent = float(exponents[0])
    if exponent == 0.0:
        return Tensor.constant(np.ones(call.tensor(0).shape))
    try:
        return power(call.trace, call.tensor(0), exponent)
    except NetworkError as error:
        raise call.node.refuse(str(error), call.remedy) from None


def _unit(kind: Activation) -> Callable[[Call], Value]:
    def lowered(call: Call) -> Value:
        return call.trace.smooth(call.tensor(0), kind)

    return lowered


for _operator, _kind in (("Exp", Exp()), ("Log", Log()), ("Sqrt", ROOT)):
    multiplies(_operator)(_unit(_kind))


@multiplies("Sinh", "Cosh")
def hyperbolic(call: Call) -> Value:
    """Half the sum or the difference of exponentials."""
    x, sign = call.tensor(0), -1.0 if call.node.op_type == "Sinh" else 1.0
    up, down = (call.trace.smooth(z, Exp()) for z in (x, -x))
    return up.scale(0.5) + down.scale(0.5 * sign)


@multiplies("Reciprocal")
def reciprocal(call: Call) -> Value:
    """``1 / x``, as a single power if x is a square root."""
    return power(call.trace, call.tensor(0), -1.0)


@multiplies("ReduceProd")
def reduce_product(call: Call) -> Value:
    """Product of entries, as a balanced tree."""
    x, shape = grouped(call)
    factors = [x.take(place) for place in x.index.T]
    return tree(factors, lambda a, b: entrywise_product(call.trace, a, b)).reshaped(shape)


# -- matrices -------------------------------------------------------------------------------------


def matrix_product(trace: Trace, a: Value, b: Value) -> Tensor:
    """Return ``a @ b`` with NumPy's rules."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor):
        if isinstance(a, Tensor):
            return times_constant(a, np.asarray(b, dtype=np.float64))
        tensor = b if isinstance(b, Tensor) else Tensor.constant(b)
        return constant_times(np.asarray(a, dtype=np.float64), tensor)
    left = a.index if len(a.shape) > 1 else a.index[None, :]
    right = b.index if len(b.shape) > 1 else b.index[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not multiply")
    first, second = np.broadcast_arrays(
        left[..., :, None, :], np.swapaxes(right, -1, -2)[..., None, :, :]
    )
    shape, inner = first.shape[:-1], first.shape[-1]
    last = _last_weights(trace, a) if inner > 1 else None
    if last is not None:  # a weighted mean is one value plus weighted differences from it
        where = np.broadcast_to(last.reshape(left.shape[:-1])[..., None], shape)[..., None]
        others = np.where(np.arange(inner - 1) < where, 0, 1) + np.arange(inner - 1)
        origin = b.take(np.take_along_axis(second, where, -1))
        rest = b.take(np.take_along_axis(second, others, -1)) - origin
        terms = entrywise_product(trace, a.take(np.take_along_axis(first, others, -1)), rest)
        total = sum_of(terms.reshaped((int(np.prod(shape)), inner - 1)), shape)
        return _without(total + origin.reshaped(shape), a, b)
    terms = entrywise_product(trace, a.take(first), b.take(second))
    return _without(sum_of(terms.reshaped((int(np.prod(shape)), inner)), shape), a, b)


def _last_weights(trace: Trace, a: Tensor) -> IntArray | None:
    """Return the last nonzero position of each row, if rows are weights of a softmax."""
    rows = a.reshaped((a.size // a.shape[-1], a.shape[-1]))
    constant = (np.diff(a.matrix.indptr) == 0).reshape(rows.shape)
    there = ~(constant & (a.offset.reshape(rows.shape) == 0.0))
    if not there.any(axis=1).all():
        return None
    columns = np.full(a.size, -1)
    columns[a.plain] = a.matrix.indices[a.matrix.indptr[:-1][a.plain]]
    of_rows = columns.reshape(rows.shape)
    total = sum_of(rows, (len(of_rows),))
    one = (np.diff(total.matrix.indptr) == 0) & (total.offset == 1.0)
    for k in np.flatnonzero(~one).tolist():
        if tuple(sorted(of_rows[k, there[k]].tolist())) not in trace.simplices:
            return None
    return np.asarray(a.shape[-1] - 1 - there[:, ::-1].argmax(axis=1))


def _without(product: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Remove the additional axes of vectors from a product."""
    kept = [*product.shape]
    if len(a.shape) == 1:
        del kept[-2]
    if len(b.shape) == 1:
        del kept[-1]
    return product.reshaped(tuple(kept))


@multiplies("MatMul")
def matmul(call: Call) -> Value:
    """Matrix product of two signals."""
    return matrix_product(call.trace, call.value(0), call.value(1))


@multiplies("Gemm")
def gemm(call: Call) -> Value:
    """``alpha * A' B' + beta * C``."""
    a, b, c = call.tensor(0), call.tensor(1), call.optional(2)
    if call.node.integer("transA", 0):
        a = a.take(a.index.T)
    if call.node.integer("transB", 0):
        b = b.take(b.index.T)
    product = matrix_product(call.trace, a, b).scale(call.node.number("alpha", 1.0))
    if c is None:
        return product
    scaled = c if isinstance(c, Tensor) else Tensor.constant(c)
    return plus(product, scaled.scale(call.node.number("beta", 1.0)))


# -- reductions -----------------------------------------------------------------------------------


@multiplies("ReduceSumSquare", "ReduceL2")
def reduce_squares(call: Call) -> Value:
    """Return the sum of squares, or its root."""
    x, shape = grouped(call)
    total = sum_of(call.trace.smooth(x, SQUARE), shape)
    return total if call.node.op_type == "ReduceSumSquare" else call.trace.smooth(total, ROOT)
