"""The operator Attention: products of signals, with a softmax of each row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from lipyomo.formats.onnx.lower.masks import absent, masked, unmasked
from lipyomo.formats.onnx.lower.products import matrix_product
from lipyomo.formats.onnx.lower.registry import Call, Value, multiplies
from lipyomo.formats.onnx.lower.softmax import softmax_of
from lipyomo.networks.activations import Tanh
from lipyomo.networks.building.affine import Tensor, joined_tensors


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
