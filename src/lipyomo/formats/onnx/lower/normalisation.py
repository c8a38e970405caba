"""Normalisations: products of centred signals with the inverse root of their mean square."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lipyomo.formats.onnx.graph import Array
from lipyomo.formats.onnx.lower.products import power
from lipyomo.formats.onnx.lower.reductions import rows_along, sum_of
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.networks.activations import Power
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import Trace

DEVIATION = 1e-9
"""Constant added to the standard deviation in `MeanVarianceNormalization`, before division."""


def _parameter(call: Call, position: int) -> Array | None:
    value = call.optional(position)
    return None if value is None else call.real(position, f"input {position}")


def _centred(rows: Tensor) -> Tensor:
    """Subtract the means of rows."""
    count, n = rows.shape
    one = np.eye(n) - np.full((n, n), 1.0 / n)
    return rows.apply(sp.csr_array(sp.kron(sp.eye_array(count), one)), rows.shape)


def _normalised(trace: Trace, rows: Tensor, epsilon: float, centred: bool) -> Tensor:
    """Divide rows, centred if requested, by the root of their mean square plus epsilon."""
    count, n = rows.shape
    rows = _centred(rows) if centred else rows
    total = sum_of(trace.smooth(rows, Power(2.0)), (count, 1))
    return trace.times(rows, trace.smooth(total.scale(1.0 / n).shift(epsilon), Power(-0.5)))


@multiplies("LayerNormalization", "RMSNormalization")
def layer_normalization(call: Call) -> list[Value]:
    """Normalise over all axes from `axis` on, with a scale and a bias."""
    x, node = call.tensor(0), call.node
    axis = node.integer("axis", -1) % len(x.shape)
    rows = x.reshaped((int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:]))))
    centred = node.op_type == "LayerNormalization"
    found = _normalised(call.trace, rows, node.number("epsilon", 1e-5), centred).reshaped(x.shape)
    scale, bias = _parameter(call, 1), _parameter(call, 2)
    found = found if scale is None else found.scale(scale)
    return [found if bias is None else found.shift(bias)]


@multiplies("InstanceNormalization", "GroupNormalization")
def channel_normalization(call: Call) -> Value:
    """Normalise each channel, or groups of channels, with a scale and a bias for each channel."""
    x, node = call.tensor(0), call.node
    batch, channels = x.shape[:2]
    groups = node.integer("num_groups", channels)
    rows = x.reshaped((batch * groups, x.size // (batch * groups)))
    found = _normalised(call.trace, rows, node.number("epsilon", 1e-5), centred=True)
    each = [np.asarray(call.real(k, f"input {k}")).reshape(-1) for k in (1, 2)]
    if node.op_type == "GroupNormalization" and node.version < 21:
        each = [np.repeat(one, channels // groups) for one in each]
    scale, bias = (one.reshape(channels, *[1] * (len(x.shape) - 2)) for one in each)
    return found.reshaped(x.shape).scale(scale).shift(bias)


@multiplies("MeanVarianceNormalization")
def mean_variance_normalization(call: Call) -> Value:
    """Subtract the mean over some axes, and divide by the standard deviation."""
    x = call.tensor(0)
    rows, back = rows_along(x, call.node.integers("axes") or [0, 2, 3])
    rows = _centred(rows)
    count, n = rows.shape
    total = sum_of(call.trace.smooth(rows, Power(2.0)), (count, 1)).scale(1.0 / n)
    deviation = call.trace.smooth(total, Power(0.5)).shift(DEVIATION)
    return call.trace.times(rows, power(call.trace, deviation, -1.0)).take(back)
