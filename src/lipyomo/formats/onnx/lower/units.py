"""Operators that are units: activations, smooth or piecewise linear, Max and Min.

Products such as ``x * Sigmoid(x)``, by which exporters express activations, are recognised in
`lipyomo.formats.onnx.gates`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import numpy as np

from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx.graph import Array
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.activations import activation
from lipyomo.networks.building.affine import Tensor, tree
from lipyomo.networks.building.trace import Trace


@lowers("Relu")
def relu(call: Call) -> Value:
    """``max(x, 0)``: slopes (0, 1)."""
    return call.trace.relu(call.tensor(0))


@lowers("LeakyRelu")
def leaky_relu(call: Call) -> Value:
    """Slopes (alpha, 1)."""
    return call.trace.unit(call.tensor(0), call.node.number("alpha", 0.01))


@lowers("PRelu")
def prelu(call: Call) -> Value:
    """Slopes (s, 1) with a constant tensor s."""
    x, slope = call.tensor(0), call.real(1, "the slope")
    if call.node.version < 7 and slope.ndim == 1 and len(x.shape) > 2:
        slope = slope.reshape(-1, *[1] * (len(x.shape) - 2))
    return call.trace.unit(x, np.broadcast_to(slope, x.shape))


@lowers("Abs")
def absolute(call: Call) -> Value:
    """Slopes (-1, 1)."""
    return call.trace.unit(call.tensor(0), -1.0)


def clip_between(
    trace: Trace, x: Tensor, low: float | Array | None, high: float | Array | None
) -> Tensor:
    """Return ``min(max(x, low), high)`` by at most two units, one for each finite limit."""
    for limit, join in ((low, trace.maximum), (high, trace.minimum)):
        if limit is not None and np.any(np.isfinite(limit)):
            x = join(Tensor.constant(np.asarray(limit, dtype=np.float64)), x)
    return x


@lowers("Clip")
def clip(call: Call) -> Value:
    """``min(max(x, min), max)``; the limits are attributes (before opset 11) or inputs."""
    limits: list[float | None] = []
    for position, key, sign in ((1, "min", -1.0), (2, "max", 1.0)):
        if call.optional(position) is not None:
            limit = float(call.real(position, "a limit").reshape(()))
        else:
            limit = float(call.node.numbers(key)) if key in call.node.attributes else sign * np.inf
        limits.append(None if limit == sign * np.inf or abs(limit) > 3e38 else limit)
    low, high = limits
    if low is not None and high is not None and low >= high:
        shape = call.tensor(0).shape
        return np.full(shape, high)
    return clip_between(call.trace, call.tensor(0), low, high)


@lowers("HardSigmoid")
def hard_sigmoid(call: Call) -> Value:
    """``min(max(alpha * x + beta, 0), 1)``."""
    alpha, beta = call.node.number("alpha", 0.2), call.node.number("beta", 0.5)
    return clip_between(call.trace, call.tensor(0).scale(alpha).shift(beta), 0.0, 1.0)


@lowers("Max")
def maximum(call: Call) -> Value:
    """Entry-wise maximum of any number of tensors and constants."""
    return tree(_constants_first(call, np.maximum), call.trace.maximum)


@lowers("Min")
def minimum(call: Call) -> Value:
    """Entry-wise minimum of any number of tensors and constants."""
    return tree(_constants_first(call, np.minimum), call.trace.minimum)


def _constants_first(call: Call, join: np.ufunc) -> list[Tensor]:
    """Return the arguments, with all constants merged to one that comes first.

    With a constant b, ``b + relu(a - b)`` does not carry b through the next layer.
    """
    constants = [np.asarray(v) for v in call.values if not isinstance(v, Tensor)]
    tensors = [v for v in call.values if isinstance(v, Tensor)]
    if constants:
        tensors.insert(0, Tensor.constant(reduce(join, constants)))
    return tensors


# -- smooth units ---------------------------------------------------------------------------------


def _single(number: float) -> float:
    """Return the nearest float32 number; defaults in the ONNX standard are such numbers."""
    return float(np.float32(number))


SMOOTH: dict[str, tuple[str, Mapping[str, float | str]]] = {
    "Tanh": ("tanh", {}),
    "Sigmoid": ("sigmoid", {}),
    "Softplus": ("softplus", {}),
    "Softsign": ("softsign", {}),
    "Erf": ("erf", {}),
    "Sin": ("sin", {}),
    "Cos": ("cos", {}),
    "Mish": ("mish", {}),
    "HardSwish": ("hard_swish", {}),
    "Elu": ("elu", {"alpha": 1.0}),
    "Selu": ("selu", {"alpha": _single(1.6732632423543772), "gamma": _single(1.0507009873554805)}),
    "Celu": ("celu", {"alpha": 1.0}),
    "Gelu": ("gelu", {"approximate": "none"}),
}
"""Operators, their activations, and parameters of the same name in both, with their defaults."""

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""


def _units(call: Call, name: str, **parameters: Any) -> Tensor:
    """Apply an activation to the first argument."""
    try:
        kind = activation(name, **parameters)
    except NetworkError as error:
        raise call.node.refuse(str(error), "export the model with other parameters") from None
    return call.trace.smooth(call.tensor(0), kind)


@lowers(*SMOOTH)
def smooth(call: Call) -> Value:
    """Return an activation with the stored parameters."""
    node = call.node
    name, defaults = SMOOTH[node.op_type]
    given = {
        key: node.text(key, default) if isinstance(default, str) else node.number(key, default)
        for key, default in defaults.items()
    }
    return _units(call, name, **given)


@lowers("Swish")
def swish(call: Call) -> Value:
    """``x / (1 + exp(-alpha x))``."""
    return _units(call, "swish", beta=call.node.number("alpha", 1.0))


@lowers("QuickGelu", domain=MICROSOFT)
def quick_gelu(call: Call) -> Value:
    """``x / (1 + exp(-alpha x))``, with alpha = 1.702 by default."""
    return _units(call, "swish", beta=call.node.number("alpha", _single(1.702)))


@lowers("Gelu", domain=MICROSOFT)
def exact_gelu(call: Call) -> Value:
    """``x Phi(x)``."""
    return _units(call, "gelu")
