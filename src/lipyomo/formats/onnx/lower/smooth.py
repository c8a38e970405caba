"""Operators that are smooth units, with the stored parameters.

Products such as ``x * Sigmoid(x)``, by which exporters express activations, are recognised in
`lipyomo.formats.onnx.gates`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.errors import NetworkError
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.activations import activation
from lipyomo.networks.building.affine import Tensor

PLAIN = {
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Erf": "erf",
    "Sin": "sin",
    "Cos": "cos",
    "Mish": "mish",
    "HardSwish": "hard_swish",
}
"""Operators without attributes, and their activations."""

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators."""


def _units(call: Call, name: str, **parameters: Any) -> Tensor:
    """Apply an activation to the first argument."""
    try:
        kind = activation(name, **parameters)
    except NetworkError as error:
        raise call.node.refuse(str(error), "export the model with other parameters") from None
    return call.trace.smooth(call.tensor(0), kind)


@lowers(*PLAIN)
def _plain(call: Call) -> Value:
    """Return an activation without parameters."""
    return _units(call, PLAIN[call.node.op_type])


@lowers("Elu")
def elu(call: Call) -> Value:
    """``x`` above zero, ``alpha (exp(x) - 1)`` below."""
    return _units(call, "elu", alpha=call.node.number("alpha", 1.0))


@lowers("Selu")
def selu(call: Call) -> Value:
    """``gamma`` times an ELU; the defaults are float32 numbers, as in the ONNX standard."""
    alpha = call.node.number("alpha", float(np.float32(1.6732632423543772)))
    gamma = call.node.number("gamma", float(np.float32(1.0507009873554805)))
    return _units(call, "selu", alpha=alpha, gamma=gamma)


@lowers("Celu")
def celu(call: Call) -> Value:
    """``x`` above zero, ``alpha (exp(x / alpha) - 1)`` below."""
    return _units(call, "celu", alpha=call.node.number("alpha", 1.0))


@lowers("Gelu")
def gelu(call: Call) -> Value:
    """``x Phi(x)``, or the form with tanh if `approximate` is "tanh"."""
    return _units(call, "gelu", approximate=call.node.text("approximate", "none"))


@lowers("Swish")
def swish(call: Call) -> Value:
    """``x / (1 + exp(-alpha x))``."""
    return _units(call, "swish", beta=call.node.number("alpha", 1.0))


@lowers("QuickGelu", domain=MICROSOFT)
def quick_gelu(call: Call) -> Value:
    """``x / (1 + exp(-alpha x))``, with alpha = 1.702 by default."""
    return _units(call, "swish", beta=call.node.number("alpha", float(np.float32(1.702))))


@lowers("Gelu", domain=MICROSOFT)
def exact_gelu(call: Call) -> Value:
    """``x Phi(x)``."""
    return _units(call, "gelu")
