"""Sums, differences, and products with constants."""

from __future__ import annotations

import numpy as np

from lipyomo.onnx.affine import Affine
from lipyomo.onnx.lower.registry import Call, Value, lowers


def plus(a: Value, b: Value) -> Value:
    """``a + b`` for any mixture of constants and tensors."""
    if isinstance(a, Affine):
        return a + b if isinstance(b, Affine) else a.shift(b)
    return b.shift(a) if isinstance(b, Affine) else np.asarray(a + b)


def minus(a: Value) -> Value:
    """``-a``."""
    return -a if isinstance(a, Affine) else np.negative(a)


@lowers("Add", "Sum")
def add(call: Call) -> Value:
    """``a + b + ...``."""
    total, *rest = call.values
    for value in rest:
        total = plus(total, value)
    return total


@lowers("Sub")
def sub(call: Call) -> Value:
    """``a - b``."""
    a, b = call.values
    return plus(a, minus(b))


@lowers("Mean")
def mean(call: Call) -> Value:
    """Mean of several tensors."""
    total = call.tensor(0)
    for position in range(1, len(call.arguments)):
        total = total + call.tensor(position)
    return total.scale(1.0 / len(call.arguments))


@lowers("Neg")
def neg(call: Call) -> Value:
    """``-a``."""
    return minus(call.value(0))


@lowers("Mul")
def mul(call: Call) -> Value:
    """``a * b`` where one of them is constant."""
    a, b = call.values
    if isinstance(a, Affine) and isinstance(b, Affine):
        raise call.node.refuse(
            "both factors depend on the network's input, so the product is not piecewise linear",
            call.cut,
        )
    if isinstance(a, Affine):
        return a.scale(call.real(1, "the factor"))
    return call.tensor(1).scale(a)


@lowers("Div")
def div(call: Call) -> Value:
    """``a / b`` with a constant divisor."""
    divisor = call.real(1, "the divisor")
    if not divisor.all():
        raise call.node.refuse("the divisor holds a zero", "export the network again")
    tensor = call.tensor(0)
    target = tensor.broadcast(np.broadcast_shapes(tensor.shape, divisor.shape))
    flat = np.broadcast_to(divisor, target.shape).reshape(-1)
    matrix = target.matrix.copy()
    matrix.data = matrix.data / np.repeat(flat, np.diff(matrix.indptr))
    return Affine(matrix, target.offset / flat, target.shape)
