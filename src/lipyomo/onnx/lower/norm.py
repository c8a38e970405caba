"""Normalisations with stored statistics, and the linear models and scalers of scikit-learn."""

from __future__ import annotations

import numpy as np

from lipyomo.onnx.affine import joined
from lipyomo.onnx.lower.matmul import times_constant
from lipyomo.onnx.lower.registry import Call, Value, lowers

_ML = "ai.onnx.ml"


@lowers("BatchNormalization")
def batch_normalization(call: Call) -> Value:
    """``scale * (x - mean) / sqrt(var + epsilon) + bias``, a channel at a time."""
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
    """``(x - offset) * scale``, a feature at a time."""
    scale = call.node.numbers("scale")
    return call.tensor(0).shift(-call.node.numbers("offset")).scale(scale)


@lowers("LinearRegressor", domain=_ML)
def linear_regressor(call: Call) -> Value:
    """``x W^T + b``."""
    node, x = call.node, call.tensor(0)
    if node.text("post_transform", "NONE") != "NONE":
        raise node.refuse(
            f"post_transform '{node.text('post_transform', '')}' is not piecewise linear",
            call.cut,
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
    return joined(parts, 1)


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
