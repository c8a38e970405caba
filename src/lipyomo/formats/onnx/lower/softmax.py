"""Softmax and log-sum-exp: smooth functions with bounded slopes."""

from __future__ import annotations

import numpy as np

from lipyomo.formats.onnx.lower.masks import absent
from lipyomo.formats.onnx.lower.reductions import columns, grouped, rows_along
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.networks.activations import Sigmoid, Softplus
from lipyomo.networks.building.affine import Tensor, joined_tensors, stack, tree
from lipyomo.networks.building.trace import Trace


def log_sum_exp(trace: Trace, parts: list[Tensor]) -> Tensor:
    """Return ``log(sum_k exp(x_k))`` entry by entry, as a tree of ``b + softplus(a - b)``."""
    return tree(parts, lambda a, b: b + trace.smooth(a - b, Softplus()))


@multiplies("ReduceLogSumExp")
def reduce_log_sum_exp(call: Call) -> Value:
    """``log(sum exp(x))``: a smooth function with slopes between zero and one."""
    x, shape = grouped(call)
    return log_sum_exp(call.trace, columns(x)).reshaped(shape)


def _others(trace: Trace, parts: list[Tensor], outside: Tensor | None = None) -> list[Tensor]:
    """Return for each part the `log_sum_exp` of all others."""
    if len(parts) == 1:
        assert outside is not None, "there are no others"
        return [outside]
    middle = len(parts) // 2
    sides = parts[:middle], parts[middle:]
    found: list[Tensor] = []
    for own, other in (sides, sides[::-1]):
        beside = log_sum_exp(trace, other)
        found += _others(
            trace, own, beside if outside is None else log_sum_exp(trace, [outside, beside])
        )
    return found


def _sigmoids(trace: Trace, over: list[Tensor]) -> list[Tensor]:
    """Return probabilities: sigmoids of all differences, or for two entries p and 1 - p."""
    found = [trace.smooth(part, Sigmoid()) for part in over[: 1 if len(over) == 2 else None]]
    if len(over) == 2:
        return [*found, (-found[0]).shift(1.0)]
    for row in np.stack([part.matrix.indices for part in found], axis=1).tolist():
        trace.simplices.add(tuple(sorted(row)))
    return found


def _all_there(trace: Trace, rows: Tensor, logarithm: bool = False) -> Tensor:
    """Return the softmax of rows without masked scores, or its logarithm."""
    if rows.shape[1] == 1:
        return Tensor.constant(np.full(rows.shape, 0.0 if logarithm else 1.0))
    parts = columns(rows)
    over = [a - b for a, b in zip(parts, _others(trace, parts), strict=True)]
    if logarithm:  # -softplus(log(sum exp(s_l)) - s_i)
        found = [-trace.smooth(-part, Softplus()) for part in over]
    else:
        found = _sigmoids(trace, over)
    return joined_tensors([part.reshaped((part.size, 1)) for part in found], 1)


def softmax_of(trace: Trace, rows: Tensor) -> Tensor:
    """Return ``sigmoid(s_i - log(sum exp(s_l)))``, with the sum over ``l != i``, for rows (n, k).

    Scores that are minus infinity have weight zero; rows with no other scores become NaN.
    """
    missing = absent(rows)
    if not missing.any():
        return _all_there(trace, rows)
    patterns, which = np.unique(missing, axis=0, return_inverse=True)
    parts = [Tensor.constant([0.0, np.nan])]
    places = np.zeros(rows.shape, dtype=np.intp)
    start = 2
    for k, pattern in enumerate(patterns):
        own = np.flatnonzero(which.reshape(-1) == k)
        if pattern.all():
            places[own] = 1
            continue
        at = np.ix_(own, np.flatnonzero(~pattern))
        part = _all_there(trace, rows.take(rows.index[at]))
        parts.append(part.reshaped((part.size,)))
        places[at] = start + part.index
        start += part.size
    return stack(parts).take(places)


@multiplies("Softmax", "LogSoftmax")
def softmax(call: Call) -> Value:
    """Weights in [0, 1] that sum to one, or their logarithms, along an axis.

    Before opset 13, along all axes from it on.
    """
    x = call.tensor(0)
    flat = call.node.version < 13
    first = call.node.integer("axis", 1 if flat else -1) % len(x.shape)
    rows, back = rows_along(x, range(first, len(x.shape)) if flat else [first])
    log = call.node.op_type == "LogSoftmax"
    weights = _all_there(call.trace, rows, log) if log else softmax_of(call.trace, rows)
    return weights.take(back)
