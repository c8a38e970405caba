"""Operators that only move entries, by ONNX's reference implementation.

It is applied to the positions of the entries instead of their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import scipy.sparse as sp

from lipyomo.formats.onnx.fold import evaluated
from lipyomo.formats.onnx.graph import REAL_TYPES, Array
from lipyomo.formats.onnx.lower.registry import Call, Value, lowers
from lipyomo.networks.building.affine import Tensor, stack
from lipyomo.networks.building.budget import budget

MOVED_BYTES = 140
"""Bytes per entry of a tensor that depends on the input, while it is moved (`Expand`)."""
MOVES = 1000
"""Number of multiplications that cost as much as moving such an entry: half a microsecond."""


def moved(call: Call, places: Sequence[int]) -> list[Value]:
    """Lower a node that moves entries of the arguments at `places`."""
    budget().charge(MOVED_BYTES * call.made, f"moving {call.made:,.0f} entries")
    budget().work(MOVES * call.made, f"moving {call.made:,.0f} entries")
    parts: dict[str, Tensor] = {}
    feeds: dict[str, Array] = {}
    start = 0
    for place, name in enumerate(call.node.inputs):
        if name and place not in places:
            feeds[name] = call.constant(place, f"input {place}")
        if not name or name in feeds:
            continue
        parts[name] = call.tensor(place)
        feeds[name] = parts[name].index + start
        start += parts[name].size
    whole = next(iter(parts.values())) if len(parts) == 1 else stack(list(parts.values()))
    return [whole.take(np.asarray(index)) for index in evaluated(call.node, feeds)]


@lowers("Expand", "Tile", "Slice", "Gather", "GatherElements", "GatherND", "Concat", "Where")
@lowers("DepthToSpace", "SpaceToDepth", "ScatterElements", "ScatterND")
@lowers("ArrayFeatureExtractor", domain="ai.onnx.ml")
def move(call: Call) -> list[Value]:
    """Entries of signals, at constant positions or by a constant condition."""
    if call.node.text("reduction", "none") != "none":
        raise call.node.refuse("it reduces what it writes", "export it without a reduction")
    signals: dict[str, Sequence[int]] = {
        "Concat": range(len(call.arguments)),
        "Where": [1, 2],
        "ScatterElements": [0, 2],
        "ScatterND": [0, 2],
    }
    return moved(call, signals.get(call.node.op_type, [0]))


@lowers("Split")
def _split(call: Call) -> list[Value]:
    """Pieces along an axis, of given or equal sizes."""
    sizes = call.integers(1, "split", "the list of sizes")
    length = call.tensor(0).shape[call.node.integer("axis", 0)]
    if sizes is not None and sum(sizes) != length:
        raise ValueError(f"sizes {sizes} for an axis of length {length}")
    return moved(call, [0])


# Common operators do not use the reference implementation, whose import takes 0.1 s.


@lowers("Identity", constants=True)
def identity(call: Call) -> Value:
    """Return the unchanged argument."""
    return call.value(0)


@lowers("Transpose", constants=True)
def transpose(call: Call) -> Value:
    """Return the axes in another order, backwards by default."""
    value, order = call.value(0), call.node.integers("perm")
    if isinstance(value, Tensor):
        return value.take(np.transpose(value.index, order))
    return np.transpose(value, order)


@lowers("Flatten", "Squeeze", "Unsqueeze", constants=True)
def reshape_axes(call: Call) -> Value:
    """Return the same entries in the predicted shape."""
    for position in range(1, len(call.arguments)):
        call.constant(position, "the list of axes")
    if call.shapes is None:
        raise ValueError("its shape cannot be told")
    return _reshaped(call.value(0), call.shapes[0])


@lowers("Reshape", constants=True)
def reshape(call: Call) -> Value:
    """New shape; 0 keeps an axis (unless `allowzero`) and -1 is inferred."""
    value = call.value(0)
    target = call.integers(1, "shape", "the shape")
    if target is None:
        raise call.node.refuse("no shape is given", "export the model again")
    if not call.node.integer("allowzero", 0):
        target = [value.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return _reshaped(value, target)


def _reshaped(value: Value, shape: Sequence[int]) -> Value:
    if isinstance(value, Tensor):
        return value.take(value.index.reshape(shape))
    return value.reshape(shape)


@lowers("Dropout", constants=True)
def dropout(call: Call) -> list[Value]:
    """Return the unchanged input; training mode is refused."""
    node = call.node
    training = False
    if node.version >= 12 and call.optional(2) is not None:
        training = bool(call.constant(2, "the training mode"))
    elif node.version < 7:
        training = not node.integer("is_test", 0)
    if training:
        raise node.refuse(
            "Dropout is in training mode, so the output is random",
            "export the model in inference mode (PyTorch: model.eval())",
        )
    value = call.value(0)
    return [value, np.ones(value.shape, dtype=bool)]


@lowers("Cast", "CastLike", constants=True)
def to_type(call: Call) -> Value:
    """Cast to another type.  Casts between real types change nothing: rounding is not modelled."""
    if call.node.op_type == "Cast":
        kind = call.node.integer("to", onnx.TensorProto.FLOAT)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        real = kind in REAL_TYPES
    else:
        like = call.value(1)
        dtype = np.dtype(np.float64) if isinstance(like, Tensor) else like.dtype
        real = dtype.kind == "f"
    value = call.value(0)
    if isinstance(value, Tensor):
        if not real:
            raise call.node.refuse(
                f"the cast to {dtype} makes a step function, which has no Lipschitz constant",
                call.remedy,
            )
        return value
    return value.astype(np.float64 if real else dtype)


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
        how: Any = mode
        return tensor.take(np.pad(tensor.index[cut], grown, how))
    raise call.node.refuse(f"padding mode '{mode}' is unknown", "use constant padding")


def take_or_fill(tensor: Tensor, index: Array, fill: float) -> Tensor:
    """Return entries at the positions `index`; the constant `fill` for negative positions."""
    flat = np.asarray(index, dtype=np.intp).reshape(-1)
    real = np.flatnonzero(flat >= 0)
    selection = sp.csr_array(
        (np.ones(real.size), (real, flat[real])), shape=(flat.size, tensor.size)
    )
    moved = tensor.apply(selection, index.shape)
    return moved.shift(np.where(index < 0, fill, 0.0))


@lowers("Shape", constants=True)
def shape_of(call: Call) -> Value:
    """Return the shape as a constant: all shapes are known while lowering."""
    shape = np.asarray(call.value(0).shape, dtype=np.int64)
    end = call.node.attributes.get("end")
    return shape[
        call.node.integer("start", 0) : None if end is None else call.node.integer("end", 0)
    ]


@lowers("Size", constants=True)
def _size_of(call: Call) -> Value:
    """Return the number of entries as a constant."""
    return np.asarray(int(np.prod(call.value(0).shape)), dtype=np.int64)
