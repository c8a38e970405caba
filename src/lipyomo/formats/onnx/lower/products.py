"""Products and quotients, with constants or of signals, and functions with unbounded slopes.

A product of signals is a difference of squares (`lipyomo.networks.building.trace.Trace.product`), a
quotient a product with a reciprocal.  Squares, reciprocals, roots, exponentials and logarithms are
units that a problem confines to their range over its domain
(`lipyomo.problems.reductions.confine`).

Signals are multiplied only if the formula is not recognised as an activation of one signal, such as
``x * Sigmoid(x)`` (`lipyomo.formats.onnx.gates`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx.fold import entry_count
from lipyomo.formats.onnx.lower.reductions import columns, grouped, sum_of
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers, multiplies
from lipyomo.networks import activations
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.budget import NUMBER, budget
from lipyomo.networks.building.trace import Trace


def power(trace: Trace, x: Tensor, exponent: float) -> Tensor:
    """Return ``x**exponent``, as a single power if x is a square root."""
    z, kind = trace.before_smooth(x) or (x, None)
    if kind == activations.Power(0.5) and exponent == int(exponent) and exponent != 2.0:
        return trace.smooth(z, activations.Power(0.5 * exponent))
    return x if exponent == 1.0 else trace.smooth(x, activations.Power(exponent))


def plus(a: Value, b: Value) -> Value:
    """Return ``a + b`` of constants or tensors."""
    if isinstance(a, Tensor):
        return a + b if isinstance(b, Tensor) else a.shift(b)
    return b.shift(a) if isinstance(b, Tensor) else np.asarray(a + b)


def operands(call: Call) -> list[Value]:
    """Return the arguments; before opset 7 the second one may be aligned to a given axis."""
    values = call.values
    axis = call.node.attributes.get("axis")
    if call.node.version < 7 and isinstance(axis, int) and len(values) == 2:
        first, second = values
        tail = len(first.shape) - axis % len(first.shape) - len(second.shape)
        shape = (*second.shape, *[1] * tail)
        values[1] = second.reshaped(shape) if isinstance(second, Tensor) else second.reshape(shape)
    return values


@lowers("Mul", factors=(0, 1))
def mul(call: Call) -> Value:
    """``a * b``."""
    a, b = operands(call)
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return call.trace.times(a, b)
    return _scaled(b, a) if isinstance(b, Tensor) else _scaled(a, b)


@lowers("Div", factors=(1,))
def div(call: Call) -> Value:
    """``a / b``."""
    a, b = operands(call)
    if isinstance(b, Tensor):
        return call.trace.times(a, power(call.trace, b, -1.0))
    divisor = np.asarray(b, dtype=np.float64)
    if not divisor.all():
        raise call.node.refuse("the divisor holds a zero", "export the network again")
    return _scaled(a, 1.0 / divisor)


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


@multiplies("Exp", "Log", "Sqrt")
def unbounded(call: Call) -> Value:
    """Units with the function of this name."""
    kinds = {"Exp": activations.Exp(), "Log": activations.Log(), "Sqrt": activations.Power(0.5)}
    return call.trace.smooth(call.tensor(0), kinds[call.node.op_type])


@multiplies("Sinh", "Cosh")
def hyperbolic(call: Call) -> Value:
    """Half the sum or the difference of exponentials."""
    x, sign = call.tensor(0), -1.0 if call.node.op_type == "Sinh" else 1.0
    up, down = (call.trace.smooth(z, activations.Exp()) for z in (x, -x))
    return up.scale(0.5) + down.scale(0.5 * sign)


@multiplies("Reciprocal")
def reciprocal(call: Call) -> Value:
    """``1 / x``, as a single power if x is a square root."""
    return power(call.trace, call.tensor(0), -1.0)


@multiplies("ReduceProd")
def reduce_product(call: Call) -> Value:
    """Product of entries, as a balanced tree."""
    x, shape = grouped(call)
    return tree(columns(x), lambda a, b: call.trace.times(a, b)).reshaped(shape)


# -- matrices -------------------------------------------------------------------------------------


def times_constant(x: Tensor, weight: FloatArray) -> Tensor:
    """``x @ weight`` with NumPy's rules for vectors and batches.

    Entry (..., i, j) of the product reads the entries (..., i, :) of `x`.
    """
    index = x.index if x.index.ndim > 1 else x.index[None, :]
    w = weight if weight.ndim > 1 else weight[:, None]
    if index.shape[-1] != w.shape[-2]:
        raise ValueError(f"shapes {x.shape} and {weight.shape} do not multiply")
    shape = (*np.broadcast_shapes(index.shape[:-2], w.shape[:-2]), index.shape[-2], w.shape[-1])
    inner = w.shape[-2]
    if index.size == inner and w.ndim == 2:
        return _without(x.apply(np.ascontiguousarray(w.T), shape), x, weight)
    full = (*shape, inner)
    budget().charge(4 * NUMBER * entry_count(full), f"a product of {entry_count(full):,.0f} terms")
    reads = np.broadcast_to(index[..., :, None, :], full).reshape(-1)
    factors = np.broadcast_to(np.swapaxes(w, -1, -2)[..., None, :, :], full).reshape(-1)
    rows = int(np.prod(shape))
    indptr = np.arange(rows + 1) * inner
    operator = sp.csr_array((factors, reads, indptr), shape=(rows, x.size))
    operator.sum_duplicates()
    return _without(x.apply(operator, shape), x, weight)


def _swapped(x: Tensor) -> Tensor:
    """Exchange the last two axes of a tensor (vectors are unchanged)."""
    return x.take(np.swapaxes(x.index, -1, -2)) if len(x.shape) > 1 else x


def constant_times(weight: FloatArray, x: Tensor) -> Tensor:
    """``weight @ x``, as the transpose of ``x^T @ weight^T``."""
    transposed = np.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight
    product = times_constant(_swapped(x), transposed)
    return _swapped(product) if weight.ndim > 1 and len(x.shape) > 1 else product


def matrix_product(trace: Trace, a: Value, b: Value) -> Tensor:
    """Return ``a @ b`` with NumPy's rules."""
    if not isinstance(b, Tensor):
        a = a if isinstance(a, Tensor) else Tensor.constant(a)
        return times_constant(a, np.asarray(b, dtype=np.float64))
    if not isinstance(a, Tensor):
        return constant_times(np.asarray(a, dtype=np.float64), b)
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
        terms = trace.times(a.take(np.take_along_axis(first, others, -1)), rest)
        total = sum_of(terms.reshaped((int(np.prod(shape)), inner - 1)), shape)
        return _without(total + origin.reshaped(shape), a, b)
    terms = trace.times(a.take(first), b.take(second))
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


def _without(product: Tensor, a: Value, b: Value) -> Tensor:
    """Remove the additional axes of vectors from a product."""
    kept = [*product.shape]
    if len(a.shape) == 1:
        del kept[-2]
    if len(b.shape) == 1:
        del kept[-1]
    return product.reshaped(tuple(kept))


@lowers("MatMul", factors=(0, 1))
def matmul(call: Call) -> Value:
    """Matrix product."""
    return matrix_product(call.trace, call.value(0), call.value(1))


def _transposed(value: Value) -> Value:
    return _swapped(value) if isinstance(value, Tensor) else value.T


def _scaled(value: Value, factors: Any) -> Value:
    if isinstance(value, Tensor):
        return value.scale(factors)
    return np.asarray(value * np.asarray(factors, dtype=np.float64))


@lowers("Gemm", factors=(0, 1))
def gemm(call: Call) -> Value:
    """``alpha * A' B' + beta * C``."""
    a, b, c = call.value(0), call.value(1), call.optional(2)
    if call.node.integer("transA", 0):
        a = _transposed(a)
    if call.node.integer("transB", 0):
        b = _transposed(b)
    alpha, beta = call.node.number("alpha", 1.0), call.node.number("beta", 1.0)
    product: Value = matrix_product(call.trace, a, b)
    product = product if alpha == 1.0 else _scaled(product, alpha)
    if c is None:
        return product
    return plus(product, c if beta == 1.0 else _scaled(c, beta))


# -- Einsum ---------------------------------------------------------------------------------------


@multiplies("Einsum")
def einsum(call: Call) -> Value:
    """Each term of the sum is an entry or a product of two; products with constants are affine."""
    tensors = [call.tensor(position) for position in range(len(call.arguments))]
    letters, kept = _letters(call, [len(tensor.shape) for tensor in tensors])
    sizes: dict[str, int] = {}
    for own, tensor in zip(letters, tensors, strict=True):
        for letter, size in zip(own, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) not in (size, 1) and size != 1:
                raise ValueError(f"axes {letter} of {sizes[letter]} and of {size} entries")
            sizes[letter] = max(sizes[letter], size)
    summed = [letter for letter in sizes if letter not in kept]
    order = [*kept, *summed]
    grid = tuple(sizes[letter] for letter in order)
    terms = [
        tensor.take(_places(own, tensor.shape, order, grid))
        for own, tensor in zip(letters, tensors, strict=True)
    ]
    found = terms[0] if len(terms) == 1 else call.trace.times(*terms)
    shape = grid[: len(kept)]
    return sum_of(found.reshaped((int(np.prod(shape)), int(np.prod(grid[len(kept) :])))), shape)


def _letters(call: Call, ranks: Sequence[int]) -> tuple[list[str], str]:
    """Return the letters of each tensor's axes, and of the result's."""
    equation = re.sub(r"\s", "", str(call.node.text("equation", "")))
    given, arrow, kept = equation.partition("->")
    letters = given.split(",")
    if "." in equation or len(letters) not in (1, 2):
        remedy = "write it as MatMul and Transpose, or by equations of one or two tensors"
        raise call.node.refuse(f"the equation {equation!r}", remedy)
    if not arrow:  # by default the letters that occur once, in alphabetical order
        every = "".join(letters)
        kept = "".join(sorted(letter for letter in set(every) if every.count(letter) == 1))
    if [len(own) for own in letters] != list(ranks) or not set(kept) <= set("".join(letters)):
        raise ValueError(f"the equation {equation!r} for tensors with {list(ranks)} axes")
    return letters, kept


def _places(
    own: str, shape: tuple[int, ...], order: Sequence[str], grid: tuple[int, ...]
) -> IntArray:
    """Return the position in a tensor for each term; axes of length one are repeated."""
    places = np.arange(math.prod(shape)).reshape(shape)
    there = "".join(letter for letter in order if letter in own)
    view = np.einsum(f"{own}->{there}", places)
    lengths = iter(view.shape)
    return np.broadcast_to(
        view.reshape([next(lengths) if letter in own else 1 for letter in order]), grid
    )


# -- reductions -----------------------------------------------------------------------------------


@multiplies("ReduceSumSquare", "ReduceL2")
def reduce_squares(call: Call) -> Value:
    """Return the sum of squares, or its root."""
    x, shape = grouped(call)
    total = sum_of(call.trace.smooth(x, activations.Power(2.0)), shape)
    if call.node.op_type == "ReduceSumSquare":
        return total
    return call.trace.smooth(total, activations.Power(0.5))
