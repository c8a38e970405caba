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


def _operands(call: Call) -> list[Value]:
    """The arguments; before opset 7 the second one may start at a given axis of the first."""
    values = call.values
    axis = call.node.attributes.get("axis")
    if call.node.version < 7 and isinstance(axis, int) and len(values) == 2:
        first, second = values
        tail = len(first.shape) - axis % len(first.shape) - len(second.shape)
        shape = (*second.shape, *[1] * tail)
        values[1] = second.reshaped(shape) if isinstance(second, Affine) else second.reshape(shape)
    return values


@lowers("Add", "Sum")
def add(call: Call) -> Value:
    """``a + b + ...``."""
    total, *rest = _operands(call)
    for value in rest:
        total = plus(total, value)
    return total


@lowers("Sub")
def sub(call: Call) -> Value:
    """``a - b``."""
    a, b = _operands(call)
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
    a, b = _operands(call)
    call.refuse_product(a, b)
    if isinstance(a, Affine):
        return a.scale(np.asarray(b))
    return (b if isinstance(b, Affine) else Affine.constant(b)).scale(a)


@lowers("Div")
def div(call: Call) -> Value:
    """``a / b`` with a constant divisor."""
    call.constant(1, "the divisor")
    divisor = np.asarray(_operands(call)[1], dtype=np.float64)
    if not divisor.all():
        raise call.node.refuse("the divisor holds a zero", "export the network again")
    return call.tensor(0).scale(1.0 / divisor)
