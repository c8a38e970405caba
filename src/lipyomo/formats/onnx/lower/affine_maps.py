"""Affine maps: sums, normalisations by constants, linear models."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np

from lipyomo.formats.onnx.lower.masks import absent, masked, unmasked
from lipyomo.formats.onnx.lower.products import operands, plus, times_constant
from lipyomo.formats.onnx.lower.reductions import rows_along
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor, joined_tensors
from lipyomo.networks.building.budget import NUMBER, budget


@lowers("Add", "Sum")
def _add(call: Call) -> Value:
    """``a + b + ...``."""
    values = operands(call)
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
    a, b = operands(call)
    return plus(a, -b)


@lowers("Mean")
def _mean(call: Call) -> Value:
    """Mean of several tensors."""
    parts = [call.tensor(position) for position in range(len(call.arguments))]
    return reduce(add, parts).scale(1.0 / len(parts))


@lowers("Neg")
def neg(call: Call) -> Value:
    """``-a``."""
    return -call.value(0)


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
    rows, back = rows_along(x, [axis])
    return times_constant(rows, weight.T if call.node.integer("reverse", 0) else weight).take(back)


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
