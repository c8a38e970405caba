"""Operators that repeat, pad, mix or rearrange entries."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from lipyomo.onnx.affine import Affine
from lipyomo.onnx.graph import Array
from lipyomo.onnx.lower.arithmetic import plus
from lipyomo.onnx.lower.registry import Call, Value, lowers, move


@lowers("Expand", constants=True)
def expand(call: Call) -> Value:
    """Repeat to a shape, by broadcasting both ways."""
    target = tuple(int(v) for v in call.constant(1, "the shape"))
    shape = np.broadcast_shapes(call.value(0).shape, target)
    return move(call.value(0), lambda a: np.broadcast_to(a, shape))


@lowers("Tile", constants=True)
def tile(call: Call) -> Value:
    """Repeat along each axis."""
    repeats = [int(v) for v in call.constant(1, "the list of repeats")]
    return move(call.value(0), lambda a: np.tile(a, repeats))


@lowers("Pad")
def pad(call: Call) -> Value:
    """Pad with a constant, or by repeating entries (`edge`, `reflect`, `wrap`)."""
    tensor, mode = call.tensor(0), call.node.text("mode", "constant")
    key = "pads" if call.node.version >= 2 else "paddings"
    pads = call.integers(1, key, "the list of pads")
    if pads is None:
        raise call.node.refuse("no pads are given", "export the model again")
    fill = call.node.number("value", 0.0)
    if call.optional(2) is not None:
        fill = float(call.real(2, "the padding value").reshape(()))
    axes = list(range(len(tensor.shape)))
    if call.optional(3) is not None:
        axes = [int(v) % len(axes) for v in call.constant(3, "the list of axes")]
    before_after = np.zeros((len(tensor.shape), 2), dtype=int)
    before_after[axes] = np.asarray(pads).reshape(2, -1).T
    grown = np.maximum(before_after, 0)
    cut = tuple(
        slice(-min(low, 0), length + min(high, 0))
        for (low, high), length in zip(before_after, tensor.shape, strict=True)
    )
    if mode == "constant":
        index = np.pad(tensor.index[cut], grown, constant_values=-1)
        return take_or_fill(tensor, index, fill)
    if mode in ("edge", "reflect", "wrap"):
        return tensor.take(np.pad(tensor.index[cut], grown, cast(Any, mode)))
    raise call.node.refuse(f"padding mode '{mode}' is unknown", "use constant padding")


def take_or_fill(tensor: Affine, index: Array, fill: float) -> Affine:
    """Entries at the positions `index`; negative positions give the constant `fill`."""
    flat = np.asarray(index, dtype=np.intp).reshape(-1)
    real = np.flatnonzero(flat >= 0)
    selection = sp.csr_array(
        (np.ones(real.size), (real, flat[real])), shape=(flat.size, tensor.size)
    )
    moved = tensor.apply(selection, index.shape)
    return moved.shift(np.where(index < 0, fill, 0.0))


@lowers("Where")
def where(call: Call) -> Value:
    """Entries of one tensor or another, by a constant condition."""
    condition = np.asarray(call.constant(0, "the condition"), dtype=bool)
    shape = np.broadcast_shapes(*(value.shape for value in call.values))
    chosen = np.broadcast_to(condition, shape)
    parts: list[Value] = []
    for position, mask in ((1, chosen), (2, ~chosen)):
        value = call.value(position)
        if isinstance(value, Affine):
            parts.append(value.scale(mask))
        else:
            parts.append(np.where(mask, value, 0.0))
    return plus(*parts)


@lowers("DepthToSpace")
def depth_to_space(call: Call) -> Value:
    """Channels to blocks of positions."""
    block = call.node.integer("blocksize", 1)
    crd = call.node.text("mode", "DCR") == "CRD"

    def how(a: Array) -> Array:
        n, c, h, w = a.shape
        inner = c // block**2
        if crd:
            split = a.reshape(n, inner, block, block, h, w).transpose(0, 1, 4, 2, 5, 3)
        else:
            split = a.reshape(n, block, block, inner, h, w).transpose(0, 3, 4, 1, 5, 2)
        return split.reshape(n, inner, h * block, w * block)

    return move(call.tensor(0), how)


@lowers("SpaceToDepth")
def space_to_depth(call: Call) -> Value:
    """Blocks of positions to channels."""
    block = call.node.integer("blocksize", 1)

    def how(a: Array) -> Array:
        n, c, h, w = a.shape
        split = a.reshape(n, c, h // block, block, w // block, block)
        return split.transpose(0, 3, 5, 1, 2, 4).reshape(n, c * block**2, h // block, w // block)

    return move(call.tensor(0), how)
