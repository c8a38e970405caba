"""Affine maps: sums, products with constants, matrix products, normalisations, linear models."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray
from lipyomo.formats.onnx.forecast import entry_count
from lipyomo.formats.onnx.lower.masks import absent, masked, unmasked
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor, joined_tensors
from lipyomo.networks.building.budget import NUMBER, budget


def plus(a: Value, b: Value) -> Value:
    """Return ``a + b`` of constants or tensors."""
    if isinstance(a, Tensor):
        return a + b if isinstance(b, Tensor) else a.shift(b)
    return b.shift(a) if isinstance(b, Tensor) else np.asarray(a + b)


def _operands(call: Call) -> list[Value]:
    """Return the arguments; before opset 7 the second one may be aligned to a given axis."""
    values = call.values
    axis = call.node.attributes.get("axis")
    if call.node.version < 7 and isinstance(axis, int) and len(values) == 2:
        first, second = values
        tail = len(first.shape) - axis % len(first.shape) - len(second.shape)
        shape = (*second.shape, *[1] * tail)
        values[1] = second.reshaped(shape) if isinstance(second, Tensor) else second.reshape(shape)
    return values


@lowers("Add", "Sum")
def _add(call: Call) -> Value:
    """``a + b + ...``."""
    values = _operands(call)
    missing = [absent(value) for value in values]
    total, *rest = map(unmasked, values)
    for value in rest:
        gated = None
        if isinstance(total, Tensor) and isinstance(value, Tensor):
            gated = call.trace.gated(total, value)
        total = plus(total, value) if gated is None else gated
    if not any(mask.any() for mask in missing):
        return total
    shape = np.broadcast_shapes(*(mask.shape for mask in missing))
    gone = np.logical_or.reduce([np.broadcast_to(mask, shape) for mask in missing])
    return masked(total if isinstance(total, Tensor) else Tensor.constant(total), gone)


@lowers("Sub")
def sub(call: Call) -> Value:
    """``a - b``."""
    a, b = _operands(call)
    return plus(a, -b)


@lowers("Mean")
def _mean(call: Call) -> Value:
    """Mean of several tensors."""
    total = call.tensor(0)
    for position in range(1, len(call.arguments)):
        total = total + call.tensor(position)
    return total.scale(1.0 / len(call.arguments))


@lowers("Neg")
def neg(call: Call) -> Value:
    """``-a``."""
    return -call.value(0)


@lowers("Mul")
def _mul(call: Call) -> Value:
    """``a * b`` where one of them is constant."""
    a, b = _operands(call)
    call.refuse_product(a, b)
    if isinstance(a, Tensor):
        return a.scale(np.asarray(b))
    return (b if isinstance(b, Tensor) else Tensor.constant(b)).scale(a)


@lowers("Trilu")
def _trilu(call: Call) -> Value:
    """One triangle of matrices, with zeros in place of the other."""
    x = call.tensor(0)
    shift = 0 if call.optional(1) is None else int(call.real(1, "the diagonal").reshape(()))
    keep = np.triu if call.node.integer("upper", 1) else np.tril
    return x.scale(keep(np.ones(x.shape), shift))


@lowers("CumSum")
def _cumulative_sum(call: Call) -> Value:
    """Return sums of the entries of an axis up to each of them."""
    x, axis = call.tensor(0), int(call.real(1, "the axis").reshape(()))
    budget().charge(2 * NUMBER * x.shape[axis] ** 2, f"sums along {x.shape[axis]:,} entries")
    ones = np.ones((x.shape[axis], x.shape[axis]))
    weight = np.triu(ones, call.node.integer("exclusive", 0))
    moved = x.take(np.moveaxis(x.index, axis, -1))
    sums = times_constant(moved, weight.T if call.node.integer("reverse", 0) else weight)
    return sums.take(np.moveaxis(sums.index, -1, axis))


@lowers("Div")
def _div(call: Call) -> Value:
    """``a / b`` with a constant divisor."""
    call.constant(1, "the divisor")
    divisor = np.asarray(_operands(call)[1], dtype=np.float64)
    if not divisor.all():
        raise call.node.refuse("the divisor holds a zero", "export the network again")
    return call.tensor(0).scale(1.0 / divisor)


def times_constant(x: Tensor, weight: FloatArray) -> Tensor:
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
    budget().charge(4 * NUMBER * entry_count(full), f"a product of {entry_count(full):,.0f} terms")
    reads = np.broadcast_to(index[..., :, None, :], full).reshape(-1)
    factors = np.broadcast_to(np.swapaxes(w, -1, -2)[..., None, :, :], full).reshape(-1)
    rows = int(np.prod(shape))
    indptr = np.arange(rows + 1) * inner
    operator = sp.csr_array((factors, reads, indptr), shape=(rows, x.size))
    operator.sum_duplicates()
    return x.apply(operator, result)


def _swapped(x: Tensor) -> Tensor:
    """Exchange the last two axes of a tensor (vectors are unchanged)."""
    return x.take(np.swapaxes(x.index, -1, -2)) if len(x.shape) > 1 else x


def constant_times(weight: FloatArray, x: Tensor) -> Tensor:
    """``weight @ x``, as the transpose of ``x^T @ weight^T``."""
    transposed = np.swapaxes(weight, -1, -2) if weight.ndim > 1 else weight
    product = times_constant(_swapped(x), transposed)
    return _swapped(product) if weight.ndim > 1 and len(x.shape) > 1 else product


def multiply(call: Call, a: Value, b: Value) -> Tensor:
    """``a @ b`` where one of them is constant."""
    call.refuse_product(a, b)
    if isinstance(a, Tensor):
        return times_constant(a, np.asarray(b, dtype=np.float64))
    tensor = b if isinstance(b, Tensor) else Tensor.constant(b)
    return constant_times(np.asarray(a, dtype=np.float64), tensor)


@lowers("MatMul")
def _matmul(call: Call) -> Value:
    """Matrix product with a constant on either side."""
    return multiply(call, call.value(0), call.value(1))


def _transposed(value: Value) -> Value:
    return _swapped(value) if isinstance(value, Tensor) else value.T


def _scaled(value: Value, factor: float) -> Value:
    if factor == 1.0:
        return value
    if isinstance(value, Tensor):
        return value.scale(factor)
    return np.asarray(value, dtype=np.float64) * factor


@lowers("Gemm")
def _gemm(call: Call) -> Value:
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


_ML = "ai.onnx.ml"


@lowers("BatchNormalization")
def batch_normalization(call: Call) -> Value:
    """``scale * (x - mean) / sqrt(var + epsilon) + bias`` for each channel."""
    node, x = call.node, call.tensor(0)
    training = bool(node.integer("training_mode", 0))
    training |= node.version < 7 and not node.integer("is_test", 0)
    training |= node.version < 14 and any(node.outputs[1:])
    if training:
        raise node.refuse(
            "BatchNormalization is in training mode, so it depends on the batch",
            "export the model in inference mode (PyTorch: model.eval())",
        )
    if not node.integer("spatial", 1):
        raise node.refuse("statistics an entry (spatial = 0) are not supported", "export it again")
    names = ("the scale", "the bias", "the mean", "the variance")
    scale, bias, mean, variance = (call.real(i + 1, name) for i, name in enumerate(names))
    spread = variance + node.number("epsilon", 1e-5)
    if not (spread > 0).all():
        raise node.refuse("the variance is not positive", "train or export the network again")
    ones = [1] * max(len(x.shape) - 2, 0)
    factor = (scale / np.sqrt(spread)).reshape(-1, *ones)
    return x.shift(-mean.reshape(-1, *ones)).scale(factor).shift(bias.reshape(-1, *ones))


@lowers("Scaler", domain=_ML)
def scaler(call: Call) -> Value:
    """``(x - offset) * scale`` for each feature."""
    scale = call.node.numbers("scale")
    return call.tensor(0).shift(-call.node.numbers("offset")).scale(scale)


@lowers("LinearRegressor", domain=_ML)
def linear_regressor(call: Call) -> Value:
    """``x W^T + b``."""
    node, x = call.node, call.tensor(0)
    if node.text("post_transform", "NONE") != "NONE":
        raise node.refuse(
            f"post_transform '{node.text('post_transform', '')}' is not supported",
            call.remedy,
        )
    targets = node.integer("targets", 1)
    result = times_constant(x, node.numbers("coefficients").reshape(targets, -1).T)
    intercepts = node.numbers("intercepts")
    return result.shift(intercepts) if intercepts.size else result


@lowers("FeatureVectorizer", domain=_ML)
def feature_vectorizer(call: Call) -> Value:
    """Join the features of several tensors."""
    parts = [call.tensor(position) for position in range(len(call.arguments))]
    parts = [p if len(p.shape) > 1 else p.reshaped((1, p.size)) for p in parts]
    return joined_tensors(parts, 1)


@lowers("Imputer", domain=_ML)
def imputer(call: Call) -> Value:
    """Identity on real numbers; only NaN may be replaced."""
    replaced = call.node.attributes.get("replaced_value_float", 0.0)
    if not (isinstance(replaced, float) and np.isnan(replaced)):
        raise call.node.refuse(
            "the imputer replaces a number, which makes a jump",
            "export the model without the imputer",
        )
    return call.value(0)
