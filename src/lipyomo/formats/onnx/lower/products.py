"""Operators that multiply or divide signals, and functions whose slopes have no bound on R.

A product is a difference of squares (`lipyomo.networks.building.trace.Trace.product`), a quotient a
product with a reciprocal.  Squares, reciprocals, roots, exponentials and logarithms are units that
a problem confines to what its domain leads to (`lipyomo.problems.reductions.confine`).

These come second: what is one activation of one signal, such as ``x * Sigmoid(x)``, is told from
its formula first (`lipyomo.formats.onnx.gates`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.base.arrays import IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx.lower.affine_maps import constant_times, plus, times_constant
from lipyomo.formats.onnx.lower.reductions import grouped, sum_of
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.formats.onnx.lower.units import tree
from lipyomo.networks.activations import Activation, Exp, Log, Power, Sigmoid, Softplus
from lipyomo.networks.building.affine import Affine, joined
from lipyomo.networks.building.multiply import times
from lipyomo.networks.building.trace import Trace

SQUARE, ROOT, INVERSE, INVERSE_ROOT = Power(2.0), Power(0.5), Power(-1.0), Power(-0.5)


def power(trace: Trace, x: Affine, exponent: float) -> Affine:
    """``x**exponent``; that of a power is one power."""
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
    return times(call.trace, call.value(0), call.value(1))


@multiplies("Div")
def div(call: Call) -> Value:
    """``a / b``."""
    return times(call.trace, call.value(0), power(call.trace, call.tensor(1), -1.0))


@multiplies("Pow")
def pow_(call: Call) -> Value:
    """``x**c`` for one constant c."""
    exponents = np.unique(call.real(1, "the exponent"))
    if exponents.size != 1:
        raise call.node.refuse("the exponents differ", call.remedy)
    exponent = float(exponents[0])
    if exponent == 0.0:
        return Affine.constant(np.ones(call.tensor(0).shape))
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


@multiplies("Reciprocal")
def reciprocal(call: Call) -> Value:
    """``1 / x``; that of a root is one power."""
    return power(call.trace, call.tensor(0), -1.0)


# -- matrices -------------------------------------------------------------------------------------


def matrix_product(trace: Trace, a: Value, b: Value) -> Affine:
    """``a @ b`` with NumPy's rules."""
    if not isinstance(a, Affine) or not isinstance(b, Affine):
        if isinstance(a, Affine):
            return times_constant(a, np.asarray(b, dtype=np.float64))
        tensor = b if isinstance(b, Affine) else Affine.constant(b)
        return constant_times(np.asarray(a, dtype=np.float64), tensor)
    left = a.index if len(a.shape) > 1 else a.index[None, :]
    right = b.index if len(b.shape) > 1 else b.index[:, None]
    if left.shape[-1] != right.shape[-2]:
        raise ValueError(f"shapes {a.shape} and {b.shape} do not multiply")
    first, second = np.broadcast_arrays(
        left[..., :, None, :], np.swapaxes(right, -1, -2)[..., None, :, :]
    )
    shape, inner = first.shape[:-1], first.shape[-1]
    if inner > 1 and _sums_to_one(trace, a):  # a mean is the last value plus differences
        rest = b.take(second[..., :-1]) - b.take(second[..., -1:])
        terms = times(trace, a.take(first[..., :-1]), rest)
        total = sum_of(terms.reshaped((int(np.prod(shape)), inner - 1)), shape)
        return _without(total + b.take(second[..., -1]), a, b)
    terms = times(trace, a.take(first), b.take(second))
    return _without(sum_of(terms.reshaped((int(np.prod(shape)), inner)), shape), a, b)


def _sums_to_one(trace: Trace, a: Affine) -> bool:
    """Whether the last axis holds weights, as a softmax gives them."""
    rows = a.reshaped((a.size // a.shape[-1], a.shape[-1]))
    if a.plain.all():
        columns = a.matrix.indices.reshape(rows.shape).tolist()
        return all(tuple(sorted(row)) in trace.simplices for row in columns)
    total = sum_of(rows, (len(rows.index),))
    return not total.matrix.nnz and bool((total.offset == 1.0).all())


def _without(product: Affine, a: Affine, b: Affine) -> Affine:
    """A product without the axes that vectors have not."""
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
    scaled = c if isinstance(c, Affine) else Affine.constant(c)
    return plus(product, scaled.scale(call.node.number("beta", 1.0)))


# -- reductions -----------------------------------------------------------------------------------


@multiplies("ReduceSumSquare", "ReduceL2")
def reduce_squares(call: Call) -> Value:
    """Sum of squares, or its root."""
    x, shape = grouped(call)
    total = sum_of(call.trace.smooth(x, SQUARE), shape)
    return total if call.node.op_type == "ReduceSumSquare" else call.trace.smooth(total, ROOT)


def log_sum_exp(trace: Trace, parts: list[Affine]) -> Affine:
    """``log(sum_k exp(x_k))`` entry by entry: a tree of ``b + softplus(a - b)``."""
    return tree(parts, lambda a, b: b + trace.smooth(a - b, Softplus()))


def _columns(x: Affine) -> list[Affine]:
    return [x.take(column) for column in x.index.T]


@multiplies("ReduceLogSumExp")
def reduce_log_sum_exp(call: Call) -> Value:
    """``log(sum exp(x))``: a smooth function with slopes between zero and one."""
    x, shape = grouped(call)
    return log_sum_exp(call.trace, _columns(x)).reshaped(shape)


def _others(trace: Trace, parts: list[Affine], outside: Affine | None = None) -> list[Affine]:
    """For each part, `log_sum_exp` of all the others."""
    if len(parts) == 1:
        assert outside is not None, "there are no others"
        return [outside]
    middle = len(parts) // 2
    sides = parts[:middle], parts[middle:]
    found: list[Affine] = []
    for own, other in (sides, sides[::-1]):
        beside = log_sum_exp(trace, other)
        found += _others(
            trace, own, beside if outside is None else log_sum_exp(trace, [outside, beside])
        )
    return found


def _along(x: Affine, axis: int) -> tuple[Affine, IntArray]:
    """Rows along an axis, and where their entries belong in the tensor."""
    index = np.moveaxis(x.index, axis, -1)
    rows = x.take(index.reshape(-1, index.shape[-1]))
    back = np.moveaxis(np.arange(x.size).reshape(index.shape), -1, axis)
    return rows, back


def _probabilities(call: Call, finish: Callable[[Trace, list[Affine]], list[Affine]]) -> Affine:
    """A softmax from what each score has over the log-sum-exp of the others."""
    x = call.tensor(0)
    flat = call.node.version < 13
    axis = call.node.integer("axis", 1 if flat else -1)
    shape = x.shape
    if flat:  # all axes from this one on are one
        axis %= len(shape)
        x = x.reshaped((int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))
        axis = 1
    rows, back = _along(x, axis)
    if rows.shape[1] == 1:
        return Affine.constant(np.full(shape, 1.0 if call.node.op_type == "Softmax" else 0.0))
    parts = _columns(rows)
    over = [a - b for a, b in zip(parts, _others(call.trace, parts), strict=True)]
    found = [part.reshaped((part.size, 1)) for part in finish(call.trace, over)]
    return joined(found, 1).take(back).reshaped(shape)


@multiplies("Softmax")
def softmax(call: Call) -> Value:
    """``sigmoid(s_i - log(sum exp(s_l)))``, the sum over all others: in [0, 1] and never steep."""

    def finish(trace: Trace, over: list[Affine]) -> list[Affine]:
        found = [trace.smooth(part, Sigmoid()) for part in over[: 1 if len(over) == 2 else None]]
        if len(over) == 2:  # the other one is what is left
            return [*found, (-found[0]).shift(1.0)]
        for row in np.stack([part.matrix.indices for part in found], axis=1).tolist():
            trace.simplices.add(tuple(sorted(row)))
        return found

    return _probabilities(call, finish)


@multiplies("LogSoftmax")
def log_softmax(call: Call) -> Value:
    """The logarithm of that, ``-softplus(log(sum exp(s_l)) - s_i)``."""
    return _probabilities(call, lambda trace, over: [-trace.smooth(-x, Softplus()) for x in over])
