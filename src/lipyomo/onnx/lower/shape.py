"""Operators that only move entries; they treat constants and tensors alike."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np

from lipyomo.onnx.affine import Affine, joined
from lipyomo.onnx.graph import REAL_TYPES
from lipyomo.onnx.lower.registry import Call, Value, lowers, move


@lowers("Identity", constants=True)
def identity(call: Call) -> Value:
    """The input as it is."""
    return call.value(0)


@lowers("Dropout", constants=True)
def dropout(call: Call) -> list[Value]:
    """The input as it is; training mode is refused."""
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


@lowers("Flatten", constants=True)
def flatten(call: Call) -> Value:
    """To two axes, split at `axis`."""
    value, axis = call.value(0), call.node.integer("axis", 1)
    axis = axis + len(value.shape) if axis < 0 else axis
    rows = int(np.prod(value.shape[:axis]))
    return move(value, lambda a: a.reshape(rows, -1) if a.size else a.reshape(rows, 0))


@lowers("Reshape", constants=True)
def reshape(call: Call) -> Value:
    """New shape; 0 keeps an axis (unless `allowzero`) and -1 is inferred."""
    value = call.value(0)
    target = call.integers(1, "shape", "the shape")
    if target is None:
        raise call.node.refuse("no shape is given", "export the model again")
    if not call.node.integer("allowzero", 0):
        target = [value.shape[axis] if size == 0 else size for axis, size in enumerate(target)]
    return move(value, lambda a: a.reshape(target))


@lowers("Transpose", constants=True)
def transpose(call: Call) -> Value:
    """Axes in the order `perm` (reversed if left out)."""
    perm = call.node.integers("perm")
    return move(call.value(0), lambda a: np.transpose(a, perm))


@lowers("Squeeze", constants=True)
def squeeze(call: Call) -> Value:
    """Drop axes of length one."""
    axes = call.integers(1, "axes", "the list of axes")
    return move(call.value(0), lambda a: np.squeeze(a, None if axes is None else tuple(axes)))


@lowers("Unsqueeze", constants=True)
def unsqueeze(call: Call) -> Value:
    """Insert axes of length one."""
    axes = call.integers(1, "axes", "the list of axes") or []
    return move(call.value(0), lambda a: np.expand_dims(a, tuple(axes)))


@lowers("Cast", "CastLike", constants=True)
def cast(call: Call) -> Value:
    """To another type.  Between real types nothing changes: no rounding is modelled."""
    import onnx

    if call.node.op_type == "Cast":
        kind = call.node.integer("to", onnx.TensorProto.FLOAT)
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind))
        real = kind in REAL_TYPES
    else:
        like = call.value(1)
        dtype = np.dtype(np.float64) if isinstance(like, Affine) else like.dtype
        real = dtype.kind == "f"
    value = call.value(0)
    if isinstance(value, Affine):
        if not real:
            raise call.node.refuse(
                f"the cast to {dtype} makes a step function, which has no Lipschitz constant",
                call.cut,
            )
        return value
    return value.astype(np.float64 if real else dtype)


@lowers("Concat", constants=True)
def concat(call: Call) -> Value:
    """Join along an axis."""
    values, axis = call.values, call.node.integer("axis", 1)
    if not any(isinstance(value, Affine) for value in values):
        return np.concatenate([np.asarray(value) for value in values], axis=axis)
    parts = [call.tensor(position) for position in range(len(values))]
    return joined(parts, axis)


@lowers("Split", constants=True)
def split(call: Call) -> list[Value]:
    """Cut along an axis into pieces of given or equal sizes."""
    value, axis = call.value(0), call.node.integer("axis", 0)
    sizes = call.integers(1, "split", "the list of sizes")
    length = value.shape[axis]
    if sizes is None:
        count = call.node.integer("num_outputs", len(call.node.outputs))
        size = -(-length // count)
        sizes = [min(size, length - start) for start in range(0, length, size)]
    ends = np.cumsum([0, *sizes])
    if ends[-1] != length:
        raise ValueError(f"sizes {sizes} for an axis of length {length}")
    pieces = [np.arange(start, end) for start, end in itertools.pairwise(ends.tolist())]
    return [move(value, partial(np.take, indices=piece, axis=axis)) for piece in pieces]


def _slice(start: int, end: int, step: int, length: int) -> slice:
    """ONNX slice bounds (clamped, negative from the end) as a Python slice."""
    if step > 0:
        return slice(start, end, step)
    end = end + length if end < 0 else end
    return slice(start, None if end < 0 else end, step)


@lowers("Slice", constants=True)
def slice_axes(call: Call) -> Value:
    """Ranges along axes; attributes before opset 10, inputs since."""
    value = call.value(0)
    starts = call.integers(1, "starts", "the start of the slice")
    ends = call.integers(2, "ends", "the end of the slice")
    if starts is None or ends is None:
        raise call.node.refuse("the slice has no start or no end", "export the model again")
    axes = call.integers(3, "axes", "the list of axes") or list(range(len(starts)))
    steps = call.integers(4, "steps", "the list of steps") or [1] * len(starts)
    cut = [slice(None)] * len(value.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = _slice(start, end, step, value.shape[axis])
    return move(value, lambda a: a[tuple(cut)])


@lowers("Gather", constants=True)
def gather(call: Call) -> Value:
    """Entries at constant positions along an axis."""
    positions = np.asarray(call.constant(1, "the list of positions"), dtype=np.intp)
    axis = call.node.integer("axis", 0)
    return move(call.value(0), lambda a: np.take(a, positions, axis=axis))


@lowers("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: Call) -> Value:
    """Entries at constant positions along the last axis."""
    positions = np.asarray(call.constant(1, "the list of positions"), dtype=np.intp).reshape(-1)
    return move(call.value(0), lambda a: np.take(a, positions, axis=-1))


@lowers("Shape", constants=True)
def shape_of(call: Call) -> Value:
    """The shape as a constant: all shapes are known while lowering."""
    shape = np.asarray(call.value(0).shape, dtype=np.int64)
    end = call.node.attributes.get("end")
    return shape[
        call.node.integer("start", 0) : None if end is None else call.node.integer("end", 0)
    ]


@lowers("Size", constants=True)
def size_of(call: Call) -> Value:
    """The number of entries as a constant."""
    return np.asarray(int(np.prod(call.value(0).shape)), dtype=np.int64)
