"""Softmax, log-sum-exp and attention: products of signals with a softmax of each row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.formats.onnx.lower.masks import absent, masked, unmasked
from lipyomo.formats.onnx.lower.products import matrix_product
from lipyomo.formats.onnx.lower.reductions import columns, grouped, rows_along
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.networks.activations import Sigmoid, Softplus, Tanh
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


# -- Attention ------------------------------------------------------------------------------------


def _heads(call: Call, position: int, key: str) -> Tensor:
    """Return an argument in the shape (batch, heads, tokens, entries)."""
    x = call.tensor(position)
    if len(x.shape) == 4:
        return x
    heads = call.node.integer(key, 0)
    if len(x.shape) != 3 or heads < 1 or x.shape[-1] % heads:
        raise ValueError(f"shape {x.shape} for {heads} heads")
    batch, tokens, entries = x.shape
    index = x.index.reshape(batch, tokens, heads, entries // heads)
    return x.take(index.transpose(0, 2, 1, 3))


def _with_past(call: Call, x: Tensor, position: int) -> Tensor:
    """Append keys or values to the past ones, if given."""
    return x if call.optional(position) is None else joined_tensors([call.tensor(position), x], 2)


def _mask(call: Call, queries: int, keys: int, batch: int) -> Value:
    """Return the mask added to the scores, minus infinity for excluded keys."""
    if call.optional(3) is None:
        mask: Value = np.zeros((1, 1, queries, keys))
    else:
        mask = call.value(3)
        if isinstance(mask, np.ndarray) and mask.dtype.kind == "b":
            mask = np.where(mask, 0.0, -np.inf)
        if mask.shape[-1] < keys:
            more = np.full((*mask.shape[:-1], keys - mask.shape[-1]), -np.inf)
            tensors = [m if isinstance(m, Tensor) else Tensor.constant(m) for m in (mask, more)]
            mask = joined_tensors(tensors, len(mask.shape) - 1)
    place, row = np.arange(keys), np.arange(queries)[:, None]
    seen = np.full(batch, keys)
    offset = np.full(batch, 0 if call.optional(4) is None else call.tensor(4).shape[2])
    if call.optional(6) is not None:
        seen = np.asarray(call.constant(6, "the number of keys"), dtype=int).reshape(-1)
        offset = seen - queries
    hidden = np.broadcast_to(place >= seen[:, None, None], (batch, queries, keys))
    if call.node.integer("is_causal", 0):
        hidden = hidden | (place > row + offset[:, None, None])
    hidden = hidden[:, None]  # of all heads
    if not isinstance(mask, Tensor):
        return np.where(hidden, -np.inf, mask)
    shape = np.broadcast_shapes(mask.shape, hidden.shape)
    return masked(mask.broadcast(shape), hidden | absent(mask))


@multiplies("Attention")
def attention(call: Call) -> list[Value]:
    """``softmax(scale Q K' + mask) V`` for each head; rows without a key are zero."""
    node = call.node
    q = _heads(call, 0, "q_num_heads")
    k, v = (_with_past(call, _heads(call, n, "kv_num_heads"), n + 3) for n in (1, 2))
    present: list[Value] = [k, v]
    batch, heads, queries, entries = q.shape
    if heads % k.shape[1]:
        raise ValueError(f"{heads} heads of queries for {k.shape[1]} of keys")
    k, v = (x.take(np.repeat(x.index, heads // k.shape[1], axis=1)) for x in (k, v))
    products = matrix_product(call.trace, q, k.take(np.swapaxes(k.index, -1, -2)))
    scores = products.scale(node.number("scale", 1.0 / math.sqrt(entries)))
    cap = node.number("softcap", 0.0)
    if cap:
        scores = call.trace.smooth(scores.scale(1.0 / cap), Tanh()).scale(cap)
    mask = _mask(call, queries, k.shape[2], batch)
    missing = np.broadcast_to(absent(mask), scores.shape)
    given = unmasked(mask)
    if isinstance(given, Tensor):
        scores = scores + given
    elif given.any():
        scores = scores.shift(given)
    scores = masked(scores, missing) if missing.any() else scores
    rows = scores.reshaped((batch * heads * queries, scores.shape[-1]))
    weights = softmax_of(call.trace, rows)
    none = np.isnan(weights.offset)
    weights = replace(weights, offset=np.where(none, 0.0, weights.offset))
    found = matrix_product(call.trace, weights.reshaped(scores.shape), v)
    if len(call.tensor(0).shape) == 3:
        index = found.index.transpose(0, 2, 1, 3)
        found = found.take(index.reshape(batch, queries, -1))
    return [found, *present]
